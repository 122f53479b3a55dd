//! A few numbers of a sample.

/// The value below which `share` of the sample lies; zero of an empty one.
pub(crate) fn quantile(sample: &[f64], share: f64) -> f64 {
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (share * (sorted.len().saturating_sub(1)) as f64).round() as usize;
    sorted.get(at).copied().unwrap_or(0.0)
}

pub(crate) fn mean(sample: &[f64]) -> f64 {
    sample.iter().sum::<f64>() / sample.len().max(1) as f64
}

/// Half of the 95% interval of the mean.
pub(crate) fn half_interval(sample: &[f64]) -> f64 {
    if sample.len() < 2 {
        return f64::INFINITY;
    }
    let middle = mean(sample);
    let sum: f64 = sample.iter().map(|x| (x - middle) * (x - middle)).sum();
    let count = sample.len() as f64;
    1.96 * (sum / (count - 1.0) / count).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_mean_and_interval() {
        let sample: Vec<f64> = (0..=100).map(f64::from).collect();
        assert_eq!((quantile(&sample, 0.5), quantile(&sample, 0.99), quantile(&[], 0.5)), (50.0, 99.0, 0.0));
        assert!((mean(&sample) - 50.0).abs() < 1e-9);
        assert!((half_interval(&sample) - 5.7).abs() < 0.1);
        assert!(half_interval(&[1.0]).is_infinite());
    }
}
