//! Tables in lines of a given length: columns that have no room go, the least important first, then cells are cut; what went is
//! said below. Where lines go into a file or a pipe nobody says how long they may be, and all of it stands there.

use crate::words;

/// How a column stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// At its left edge.
    Left,
    /// At its right edge.
    Right,
}

/// Rows under a header, each column as wide as its widest cell; the last column is not padded.
pub fn aligned(header: &[(&str, Align)], rows: &[Vec<String>]) -> Vec<String> {
    let mut widths: Vec<usize> = header.iter().map(|(name, _)| name.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let names: Vec<String> = header.iter().map(|(name, _)| (*name).to_owned()).collect();
    std::iter::once(&names)
        .chain(rows)
        .map(|row| {
            let cells = row.iter().zip(header).zip(&widths).map(|((cell, (_, align)), &width)| {
                let blank = " ".repeat(width.saturating_sub(cell.chars().count()));
                match align {
                    Align::Left => format!("{cell}{blank}"),
                    Align::Right => format!("{blank}{cell}"),
                }
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        })
        .collect()
}

/// What a cut cell keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Its beginning, as of a word.
    Beginning,
    /// Its end, as of a path.
    End,
}

/// How a table gives way.
#[derive(Clone, Copy, Debug)]
pub struct Way<'a> {
    /// Columns in the order in which they go; what is not named stays.
    pub goes: &'a [&'a str],
    /// Columns whose cells are cut, the longest first, where no column is left to go.
    pub cut: &'a [(&'a str, Keep)],
    /// Where all of it stands: `--json and a wider terminal have all`.
    pub all: &'a str,
}

/// A table that fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fitted {
    /// The header and the rows.
    pub lines: Vec<String>,
    /// What is said of columns that have no room; empty where all have.
    pub hidden: Vec<String>,
}

impl Fitted {
    /// All of it, as lines that end.
    #[must_use]
    pub fn text(&self) -> String {
        self.lines.iter().chain(&self.hidden).map(|line| format!("{line}\n")).collect()
    }
}

/// Characters of a cell below which it is not cut.
const CELL_LEAST: usize = 8;

/// Rows under a header, in lines of at most `width` characters, where that is given.
#[must_use]
pub fn fitted(header: &[(&str, Align)], rows: &[Vec<String>], way: Way<'_>, width: Option<usize>) -> Fitted {
    let Some(width) = width else { return Fitted { lines: aligned(header, rows), hidden: Vec::new() } };
    let (mut left, mut rows) = (header.to_vec(), rows.to_vec());
    let is_wide = |header: &[(&str, Align)], rows: &[Vec<String>]| {
        aligned(header, rows).iter().any(|line| line.chars().count() > width)
    };
    for name in way.goes {
        if !is_wide(&left, &rows) {
            break;
        }
        if let Some(at) = left.iter().position(|(other, _)| other == name) {
            left.remove(at);
            rows.iter_mut().for_each(|row| drop(row.remove(at)));
        }
    }
    while is_wide(&left, &rows) && cut_longest(&left, &mut rows, way.cut) {}
    let gone = header.iter().map(|(name, _)| *name);
    let gone: Vec<&str> =
        gone.filter(|name| !name.is_empty() && left.iter().all(|(other, _)| other != name)).collect();
    let hidden = match &gone[..] {
        [] => Vec::new(),
        gone => wrapped(&format!("No room for {}: {}.", words::list(gone), way.all), width),
    };
    Fitted { lines: aligned(&left, &rows), hidden }
}

/// Takes a character from the longest cells that may be cut; none that could be is left where it says no.
fn cut_longest(header: &[(&str, Align)], rows: &mut [Vec<String>], cut: &[(&str, Keep)]) -> bool {
    let columns = cut
        .iter()
        .filter_map(|(name, keep)| Some((header.iter().position(|(other, _)| other == name)?, *keep)));
    let longest = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let Some((at, keep)) = columns.max_by_key(|&(at, _)| longest(at)) else { return false };
    let longest = longest(at);
    if longest <= CELL_LEAST {
        return false;
    }
    for cell in rows.iter_mut().map(|row| &mut row[at]).filter(|cell| cell.chars().count() == longest) {
        *cell = match keep {
            Keep::Beginning => cell.chars().take(longest - 2).chain(['…']).collect(),
            Keep::End => std::iter::once('…').chain(cell.chars().skip(2)).collect(),
        };
    }
    true
}

/// Rows under a header whose last column is prose: it goes on in lines of its own below where its row has no room.
#[must_use]
pub fn flowing(header: &[(&str, Align)], rows: &[Vec<String>], width: Option<usize>) -> Vec<String> {
    let (Some(width), Some(columns)) = (width, header.len().checked_sub(1)) else {
        return aligned(header, rows);
    };
    let widest = |at: usize| {
        let cells = rows.iter().map(|row| row[at].chars().count());
        cells.chain([header[at].0.chars().count()]).max().unwrap_or(0)
    };
    let before: usize = (0..columns).map(|at| widest(at) + 2).sum();
    // Of a terminal that is narrower than this nothing can be made.
    let room = width.saturating_sub(before).max(2 * CELL_LEAST);
    let mut lines = Vec::new();
    for row in rows {
        for (number, part) in wrapped(&row[columns], room).into_iter().enumerate() {
            let cells =
                row[..columns].iter().map(|cell| if number == 0 { cell.clone() } else { String::new() });
            lines.push(cells.chain([part]).collect());
        }
    }
    aligned(header, &lines)
}

/// Words in lines of at most `width` characters; a word that is longer has a line of its own.
#[must_use]
pub fn wrapped(words: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words.split(' ') {
        match lines.last_mut() {
            Some(last) if last.chars().count() + 1 + word.chars().count() <= width => {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: [(&str, Align); 4] =
        [("name", Align::Left), ("size", Align::Right), ("state", Align::Left), ("path", Align::Left)];
    const WAY: Way<'_> = Way {
        goes: &["state", "size"],
        cut: &[("name", Keep::Beginning), ("path", Keep::End)],
        all: "--json has all",
    };

    fn rows() -> Vec<Vec<String>> {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        vec![
            row(["first", "1.00 GiB", "in", "/srv/data/tables/orders.idx"]),
            row(["the second of them", "12 B", "stale", "/x"]),
        ]
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let lines = aligned(
            &[("a", Align::Left), ("b", Align::Right)],
            &[vec!["long".into(), "1".into()], vec!["x".into(), "22×".into()]],
        );
        assert_eq!(lines, ["a       b", "long    1", "x     22×"]);
    }

    #[test]
    fn columns_go_in_their_order_and_then_cells_are_cut_at_the_end_that_says_least() {
        let at = |width| fitted(&HEADER, &rows(), WAY, Some(width));
        assert_eq!(at(200), fitted(&HEADER, &rows(), WAY, None));
        assert_eq!(at(58).lines[1], "first               1.00 GiB  /srv/data/tables/orders.idx");
        assert_eq!(at(58).hidden, ["No room for state: --json has all."]);
        assert_eq!(at(50).hidden, ["No room for size and state: --json has all."]);
        assert_eq!(at(40).lines[1..], ["first               …a/tables/orders.idx", "the second of them  /x"]);
        assert_eq!(at(30).lines[1..], ["first           …es/orders.idx", "the second of…  /x"]);
        for width in [20, 30, 40, 50, 58, 80] {
            let fits =
                at(width).lines.iter().chain(&at(width).hidden).all(|line| line.chars().count() <= width);
            assert!(fits, "{width}: {:#?}", at(width));
        }
    }

    #[test]
    fn prose_goes_on_below_its_row() {
        let header = [("number", Align::Left), ("because", Align::Left)];
        let rows = [vec!["R".to_owned(), "a power of two that a request fits".to_owned()]];
        assert_eq!(
            flowing(&header, &rows, Some(28)),
            ["number  because", "R       a power of two that", "        a request fits"]
        );
        assert_eq!(flowing(&header, &rows, None), aligned(&header, &rows));
    }
}
