//! A curve drawn with characters: shares against sizes, for a terminal of 80 columns or fewer.
//!
//! Sizes stand on a logarithmic axis, since a cache that doubles is a step and one that grows by a megabyte is not. Between two sizes that
//! were asked for a straight line is drawn; each curve has a mark of its own, and where two meet the first one's stands.

/// Columns of the drawing at most and at least, the axis apart.
const WIDTH: usize = 64;
const WIDTH_LEAST: usize = 16;
/// Columns of the axis and what stands before it.
const AXIS: usize = 6;
/// Rows of it.
const HEIGHT: usize = 12;
/// Marks of the curves, in order; beyond, they are used again.
const MARKS: [char; 6] = ['●', '+', '×', '○', '▲', '*'];

/// A curve: its name, and its points as size and share, sizes ascending.
pub struct Curve {
    /// What stands beside its mark.
    pub name: String,
    /// (size, share from 0 to 1).
    pub points: Vec<(f64, f64)>,
}

/// The curves under one another's axes, in lines of at most `columns` where that is given; nothing where there are fewer than two
/// sizes. `tick` writes a size.
#[must_use]
pub fn drawn(curves: &[Curve], tick: &dyn Fn(f64) -> String, columns: Option<usize>) -> String {
    let width = columns.map_or(WIDTH, |columns| columns.saturating_sub(AXIS).clamp(WIDTH_LEAST, WIDTH));
    let sizes = || curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.0));
    let (least, most) =
        sizes().fold((f64::MAX, 0.0_f64), |(least, most), size| (least.min(size), most.max(size)));
    if least <= 0.0 || most <= least {
        return String::new();
    }
    let column = |size: f64| (size / least).ln() / (most / least).ln() * (width - 1) as f64;
    let mut cells = vec![vec![' '; width]; HEIGHT];
    for (number, curve) in curves.iter().enumerate().rev() {
        for (x, share) in samples(curve, column, width) {
            let row = ((1.0 - share.clamp(0.0, 1.0)) * (HEIGHT - 1) as f64).round();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to HEIGHT - 1")]
            let row = row as usize;
            cells[row][x] = MARKS[number % MARKS.len()];
        }
    }
    let mut text = String::new();
    for (number, row) in cells.iter().enumerate() {
        let label = match number {
            0 => "100%",
            _ if number == HEIGHT / 2 => " 50%",
            _ if number == HEIGHT - 1 => "  0%",
            _ => "    ",
        };
        let row: String = row.iter().collect();
        text.push_str(format!("{label} │{}", row.trim_end()).trim_end());
        text.push('\n');
    }
    let (from, to) = (tick(least), tick(most));
    let between = (width + 1).saturating_sub(from.chars().count() + to.chars().count());
    text.push_str(&format!("     └{}\n     {from}{}{to}\n", "─".repeat(width), " ".repeat(between.max(1))));
    for (number, curve) in curves.iter().enumerate() {
        text.push_str(&format!("     {} {}\n", MARKS[number % MARKS.len()], curve.name));
    }
    text
}

/// A value in each column from a curve's first size to its last.
fn samples(curve: &Curve, column: impl Fn(f64) -> f64, width: usize) -> Vec<(usize, f64)> {
    let at: Vec<(f64, f64)> = curve.points.iter().map(|&(size, share)| (column(size), share)).collect();
    let value = |x: f64| {
        let after = at.partition_point(|point| point.0 < x).min(at.len() - 1);
        let (left, right) = (at[after.saturating_sub(1)], at[after]);
        let across = right.0 - left.0;
        if across <= 0.0 {
            right.1
        } else {
            left.1 + (right.1 - left.1) * ((x - left.0) / across).clamp(0.0, 1.0)
        }
    };
    let (Some(first), Some(last)) = (at.first(), at.last()) else { return Vec::new() };
    let columns = (0..width).filter(|&x| x as f64 >= first.0.floor() && x as f64 <= last.0.ceil());
    columns.map(|x| (x, value(x as f64))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(name: &str, points: &[(f64, f64)]) -> Curve {
        Curve { name: name.into(), points: points.to_vec() }
    }

    #[test]
    fn a_narrow_terminal_gets_a_narrow_drawing() {
        let points = [(1.0, 1.0), (1_000.0, 0.0)];
        for columns in [30, 60, 70] {
            let text = drawn(&[curve("lru", &points)], &|size| format!("{size}"), Some(columns));
            assert_eq!(text.lines().map(|line| line.chars().count()).max(), Some(columns), "{text}");
        }
    }

    #[test]
    fn a_curve_falls_from_left_to_right_and_fits_a_terminal() {
        let lru = curve("lru", &[(1.0, 1.0), (10.0, 0.5), (100.0, 0.0)]);
        let text = drawn(&[lru], &|size| format!("{size}"), None);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), HEIGHT + 3);
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
        assert!(lines[0].starts_with("100% │●"), "{text}");
        let last = lines[HEIGHT - 1];
        assert!(
            last.starts_with("  0% │") && last.ends_with('●') && last.chars().count() == 6 + WIDTH,
            "{text}"
        );
        // Each column has a mark, since the axis is the sizes' own.
        let marks = text.lines().take(HEIGHT).flat_map(str::chars).filter(|&c| c == '●').count();
        assert_eq!(marks, WIDTH);
        assert!(lines[HEIGHT + 1].starts_with("     1 ") && lines[HEIGHT + 1].ends_with("100"), "{text}");
    }

    #[test]
    fn of_two_that_meet_the_first_is_seen_and_one_size_is_no_curve() {
        let same = [curve("lru", &[(1.0, 0.5), (2.0, 0.5)]), curve("arc", &[(1.0, 0.5), (2.0, 0.0)])];
        let text = drawn(&same, &|size| format!("{size}"), None);
        assert!(text.contains('●') && text.contains('+') && text.contains("     + arc"), "{text}");
        assert_eq!(drawn(&[curve("lru", &[(1.0, 0.5)])], &|size| format!("{size}"), None), "");
    }
}
