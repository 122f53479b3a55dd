//! How long the arm takes: a table of nanoseconds for every distance, built once.
//!
//! A preset may give the classic three numbers of a data sheet (Lee and Katz's fit through single-cylinder, average
//! and full-stroke time), an extracted table that is joined by straight lines, or Ruemmler and Wilkes' two-piece
//! curve with its first ten distances spelled out. Square roots are taken here, when the table is built, and nowhere
//! else: from then on a seek is one load.

use serde::{Deserialize, Serialize};

/// The seek behaviour of a drive as a preset states it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum SeekSpec {
    /// Lee and Katz's three-point curve: `c + a*sqrt(d-1) + b*(d-1)`.
    LeeKatz {
        /// One cylinder.
        min_us: f64,
        /// Mean over uniform pairs of cylinders.
        avg_us: f64,
        /// Over all cylinders.
        max_us: f64,
    },
    /// Measured points, joined by straight lines; the last line goes on beyond the end.
    Table {
        /// `[distance in cylinders, microseconds]`, ascending by distance.
        points_us: Vec<(u32, f64)>,
    },
    /// The first distances one by one, then a root curve, then a line (Ruemmler and Wilkes, IEEE Computer 1994).
    Split {
        /// Microseconds for distances 1, 2, ….
        first_us: Vec<f64>,
        /// Distances below this follow the root curve.
        split_cylinders: u32,
        /// Constant and factor of `sqrt(distance)`.
        root_us: [f64; 2],
        /// Constant and factor of `distance`.
        line_us: [f64; 2],
    },
}

/// `c + a*sqrt(d-1) + b*(d-1)` in nanoseconds: `(c, a, b)` through the three numbers of a data sheet.
#[must_use]
pub fn lee_katz(min_us: f64, avg_us: f64, max_us: f64, cylinders: u32) -> (f64, f64, f64) {
    let n = f64::from(cylinders.max(2));
    let a = (-10.0 * min_us + 15.0 * avg_us - 5.0 * max_us) / (3.0 * n.sqrt());
    let b = (7.0 * min_us - 15.0 * avg_us + 8.0 * max_us) / (3.0 * n);
    (min_us * 1e3, a * 1e3, b * 1e3)
}

/// Nanoseconds of a seek over each distance.
#[derive(Clone, Debug)]
pub struct SeekTable {
    ns: Vec<u32>,
}

fn to_ns(us: f64) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped; a seek is below 4 s"
    )]
    let ns = (us * 1e3).round().clamp(0.0, 4e9) as u32;
    ns
}

impl SeekTable {
    /// Builds the table for a drive of `cylinders`.
    #[must_use]
    pub fn new(spec: &SeekSpec, cylinders: u32) -> Self {
        let mut ns = Vec::with_capacity(cylinders as usize);
        ns.push(0);
        for distance in 1..cylinders {
            ns.push(to_ns(spec.time_us(distance, cylinders)));
        }
        Self { ns }
    }

    /// Nanoseconds from cylinder `from` to `to`; zero when they are the same.
    #[must_use]
    pub fn get(&self, from: u32, to: u32) -> u64 {
        let distance = from.abs_diff(to) as usize;
        u64::from(self.ns.get(distance).or(self.ns.last()).copied().unwrap_or(0))
    }

    /// `(one cylinder, mean over uniform pairs, full stroke)` in nanoseconds.
    #[must_use]
    pub fn summary(&self) -> (u64, u64, u64) {
        let n = self.ns.len() as u64;
        let (mut sum, mut pairs) = (0u128, 0u128);
        for (distance, &time) in self.ns.iter().enumerate().skip(1) {
            let weight = u128::from(n - distance as u64);
            sum += weight * u128::from(time);
            pairs += weight;
        }
        let mean = u64::try_from(sum.checked_div(pairs).unwrap_or(0)).unwrap_or(u64::MAX);
        let one = self.ns.get(1).copied().unwrap_or(0);
        (u64::from(one), mean, u64::from(self.ns.last().copied().unwrap_or(0)))
    }
}

impl SeekSpec {
    fn time_us(&self, distance: u32, cylinders: u32) -> f64 {
        match self {
            Self::LeeKatz { min_us, avg_us, max_us } => {
                let (c, a, b) = lee_katz(*min_us, *avg_us, *max_us, cylinders);
                let x = f64::from(distance - 1);
                (c + a * x.sqrt() + b * x) / 1e3
            }
            Self::Table { points_us } => table_us(points_us, distance),
            Self::Split { first_us, split_cylinders, root_us, line_us } => {
                if let Some(&time) = first_us.get(distance as usize - 1) {
                    time
                } else if distance < *split_cylinders {
                    root_us[0] + root_us[1] * f64::from(distance).sqrt()
                } else {
                    line_us[0] + line_us[1] * f64::from(distance)
                }
            }
        }
    }
}

fn table_us(points: &[(u32, f64)], distance: u32) -> f64 {
    let next = points.partition_point(|point| point.0 < distance);
    match points.get(next) {
        Some(&(at, time)) if at == distance => return time,
        _ => {}
    }
    let upper = next.clamp(1, points.len().saturating_sub(1).max(1));
    let (Some(&(d0, t0)), Some(&(d1, t1))) = (points.get(upper - 1), points.get(upper)) else {
        return points.first().map_or(0.0, |point| point.1);
    };
    t0 + (t1 - t0) * (f64::from(distance) - f64::from(d0)) / (f64::from(d1) - f64::from(d0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_point_curve_goes_through_its_three_points() {
        let spec = SeekSpec::LeeKatz { min_us: 200.0, avg_us: 3500.0, max_us: 7400.0 };
        let (one, mean, full) = SeekTable::new(&spec, 55_400).summary();
        assert_eq!(one, 200_000);
        assert!(mean.abs_diff(3_500_000) < 10_000, "{mean}");
        assert!(full.abs_diff(7_400_000) < 20_000, "{full}");
    }

    #[test]
    fn a_table_is_joined_by_lines_and_goes_on_beyond_its_end() {
        let spec = SeekSpec::Table { points_us: vec![(1, 100.0), (11, 200.0), (21, 180.0)] };
        let table = SeekTable::new(&spec, 40);
        assert_eq!(table.get(5, 5), 0);
        assert_eq!(table.get(0, 6), 150_000);
        assert_eq!(table.get(16, 0), 190_000);
        assert_eq!(table.get(0, 31), 160_000);
    }

    #[test]
    fn a_split_curve_changes_from_root_to_line_at_its_border() {
        let spec = SeekSpec::Split {
            first_us: vec![50.0],
            split_cylinders: 100,
            root_us: [10.0, 10.0],
            line_us: [60.0, 0.5],
        };
        let table = SeekTable::new(&spec, 300);
        assert_eq!(table.get(0, 1), 50_000);
        assert_eq!(table.get(0, 64), 90_000);
        assert_eq!(table.get(0, 200), 160_000);
    }
}
