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

/// Factors of the named columns by which each row comes nearest to its last number; none where the rows do not tell them apart.
pub(crate) fn least_squares(rows: &[[f64; 5]], columns: &[usize]) -> Option<Vec<f64>> {
    let count = columns.len();
    let mut sums = vec![vec![0.0; count + 1]; count];
    for row in rows {
        for (line, &left) in sums.iter_mut().zip(columns) {
            for (sum, &right) in line.iter_mut().zip(columns.iter().chain(&[4])) {
                *sum += row[left] * row[right];
            }
        }
    }
    for at in 0..count {
        let largest = (at..count).max_by(|&a, &b| sums[a][at].abs().total_cmp(&sums[b][at].abs()))?;
        sums.swap(at, largest);
        let pivot = sums[at].clone();
        if pivot[at].abs() < f64::MIN_POSITIVE {
            return None;
        }
        for (_, line) in sums.iter_mut().enumerate().filter(|&(number, _)| number != at) {
            let factor = line[at] / pivot[at];
            line.iter_mut().zip(&pivot).for_each(|(value, own)| *value -= factor * own);
        }
    }
    Some((0..count).map(|at| sums[at][count] / sums[at][at]).collect())
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

    #[test]
    fn factors_are_found_again_and_columns_that_are_alike_are_not_told_apart() {
        let rows: Vec<[f64; 5]> = [[1.0, 2.0], [3.0, 1.0], [2.0, 5.0]]
            .iter()
            .map(|&[a, b]| [a, b, 0.0, a, 7.0 * a + 0.5 * b])
            .collect();
        let found = least_squares(&rows, &[0, 1]).expect("two columns");
        assert!((found[0] - 7.0).abs() < 1e-9 && (found[1] - 0.5).abs() < 1e-9, "{found:?}");
        assert_eq!(least_squares(&rows, &[0, 2]), None);
    }
}
