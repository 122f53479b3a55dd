//! The curves of the figures as we have them: points gathered from the claims, for whoever draws them.

use super::claim::Claim;
use super::{Reports, Study};
use serde::Serialize;

/// One figure's curves.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chart {
    /// As in [`Study::figures`].
    pub figure: String,
    /// What the x axis counts.
    pub x: String,
    /// What the y axis counts.
    pub y: String,
    /// The curves, in the order of the table.
    pub series: Vec<Series>,
    /// What stands at each x, in words, in the order of x; the points are bars. Empty where x counts something.
    pub names: Vec<(f64, String)>,
}

/// One curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// The scheme, and what else is not as usual.
    pub name: String,
    /// (x, y), in the order of x.
    pub points: Vec<(f64, f64)>,
}

/// Gathers the points of all claims.
pub(super) fn charts(study: &Study, claims: &[Claim], reports: &Reports) -> Vec<Chart> {
    let mut charts: Vec<Chart> = Vec::new();
    for claim in claims {
        let (Some(place), Some(y)) = (&claim.place, claim.judge(reports).ours) else { continue };
        let at = charts.iter().position(|c| c.figure == claim.figure).unwrap_or_else(|| {
            let (x, y) = (study.axes)(claim.figure);
            let (series, names) = (Vec::new(), Vec::new());
            charts.push(Chart { figure: claim.figure.into(), x: x.into(), y: y.into(), series, names });
            charts.len() - 1
        });
        let names = &mut charts[at].names;
        if study.bars.contains(&claim.figure) && !names.iter().any(|(x, _)| *x == place.x) {
            names.push((place.x, place.name.clone()));
        }
        let series = &mut charts[at].series;
        let of = series.iter().position(|s| s.name == place.series).unwrap_or_else(|| {
            series.push(Series { name: place.series.clone(), points: Vec::new() });
            series.len() - 1
        });
        series[of].points.push((place.x, y));
    }
    for chart in &mut charts {
        chart.names.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    for series in charts.iter_mut().flat_map(|c| &mut c.series) {
        series.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    charts
}
