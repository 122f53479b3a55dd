//! How sure a mean of few values is: Student's interval, for rows over seeds and for trials over turns.

/// Most values: two-sided 95% points are here for as many.
pub const VALUES_MAX: usize = 10;

/// Student's t at 95%, two-sided, by degrees of freedom from 1 on (any table of it; Gosset, Biometrika 1908).
const STUDENT: [f64; VALUES_MAX - 1] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];

/// Mean, and the ends of the mean's 95% interval, in the values' unit; none of fewer than two values, or of more than [`VALUES_MAX`].
#[must_use]
pub fn interval(values: &[f64]) -> Option<(f64, (f64, f64))> {
    let student = values.len().checked_sub(2).and_then(|at| STUDENT.get(at))?;
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    let half = student * libm::sqrt(squares / (count - 1.0) / count);
    Some((mean, (mean - half, mean + half)))
}

/// The same for more degrees of freedom, from ten on, of the same tables: the next lower of these counts.
const STUDENT_FROM_TEN: [(f64, f64); 8] = [
    (10.0, 2.228),
    (12.0, 2.179),
    (15.0, 2.131),
    (20.0, 2.086),
    (25.0, 2.060),
    (30.0, 2.042),
    (60.0, 2.000),
    (120.0, 1.980),
];

/// Student's t at 95%, two-sided, for any degrees of freedom, as Welch's interval has them: that of the next whole number below which the tables
/// have, and so never too small. Of fewer than one it is that of one.
#[must_use]
pub fn factor(freedom: f64) -> f64 {
    let large = STUDENT_FROM_TEN.iter().rev().find(|(from, _)| freedom >= *from);
    large.map_or_else(
        || {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 8")]
            let at = (libm::floor(freedom) - 1.0).clamp(0.0, (STUDENT.len() - 1) as f64) as usize;
            STUDENT[at]
        },
        |(_, factor)| *factor,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_is_never_smaller_than_that_of_more_freedom() {
        let all: Vec<f64> = (0..2_000).map(|tenth| factor(f64::from(tenth) / 10.0)).collect();
        assert!(all.windows(2).all(|two| two[0] >= two[1]));
        let of = |freedom| factor(freedom);
        assert_eq!((of(0.0), of(1.9), of(3.92), of(9.99), of(10.0)), (12.706, 12.706, 3.182, 2.262, 2.228));
        assert_eq!((of(62.0), of(1e9), of(f64::INFINITY)), (2.0, 1.98, 1.98));
    }

    #[test]
    fn an_interval_is_students() {
        let (mean, (low, high)) = interval(&[1.0, 2.0, 3.0, 4.0, 5.0]).expect("five");
        // sd = 1.5811, over the root of 5 is 0.70711, times 2.776.
        assert!((mean - 3.0).abs() < 1e-12 && (low - 1.0371).abs() < 1e-3 && (high - 4.9629).abs() < 1e-3);
        assert_eq!(interval(&[2.0, 2.0]), Some((2.0, (2.0, 2.0))));
        assert_eq!((interval(&[7.0]), interval(&[])), (None, None));
        assert!(interval(&[1.0; VALUES_MAX]).is_some() && interval(&[1.0; VALUES_MAX + 1]).is_none());
    }
}
