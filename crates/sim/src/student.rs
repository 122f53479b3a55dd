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

#[cfg(test)]
mod tests {
    use super::*;

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
