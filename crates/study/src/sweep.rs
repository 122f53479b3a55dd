//! Sweeps: a study of many cells, run in pieces, on one machine or several, and put together to the same bytes.
//!
//! A [study](study::Study) says its cells; each has an id, the hash of its spec and of its input's content. What a cell measured is
//! a line of a [file](results::Lines) that only grows, so a sweep that is killed loses the cells that were under way and repeats none
//! of those that are done. When every cell has its line, the lines become one Parquet file, in the order of the study.

pub mod local;
mod parquet;
pub mod results;
pub mod study;
