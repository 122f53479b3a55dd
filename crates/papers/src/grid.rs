//! Tables of numbers: what many rows of a figure stand on, told once and in columns.

use serde::Serialize;

/// A table of numbers beside the rows of a figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Grid {
    /// As in [`super::Study::figures`].
    pub figure: String,
    /// What is in it, with units.
    pub title: String,
    /// Heads of the columns of words.
    pub labels: Vec<String>,
    /// Heads of the columns of numbers.
    pub columns: Vec<String>,
    /// Its lines.
    pub lines: Vec<GridLine>,
}

/// One line of a [`Grid`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GridLine {
    /// A word for each of the grid's labels.
    pub labels: Vec<String>,
    /// A number for each of its columns, in the unit that the column or the title names.
    pub values: Vec<f64>,
}
