//! Trace formats to and from [`record::Record`]; nothing else in Forerun knows a format.

pub mod record;
