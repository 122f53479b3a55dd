//! Colour in text: the few styles that a table needs, and whether there is any.

/// Whether text may hold escape sequences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paint {
    /// It may.
    pub color: bool,
}

impl Paint {
    /// `text` in the given style where there is colour.
    #[must_use]
    pub fn paint(self, style: Style, text: &str) -> String {
        if self.color { format!("\x1b[{}m{text}\x1b[0m", style.code()) } else { text.to_owned() }
    }
}

/// The few styles that a table needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Headings.
    Bold,
    /// Baselines and remarks.
    Dim,
    /// The winner.
    Good,
    /// Worse than reading without prefetching.
    Bad,
}

impl Style {
    const fn code(self) -> &'static str {
        match self {
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Good => "1;32",
            Self::Bad => "33",
        }
    }
}
