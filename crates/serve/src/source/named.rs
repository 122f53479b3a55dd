//! What can be said of an export's members by their names and numbers alone: it is refused before anything is opened, and by `forerun config show`,
//! which opens nothing.

use super::{MEMBERS_MAX, check_strip, is_object};
use crate::error::ServeError;
use crate::nbd::client::{Address, Endpoint};
use crate::options::{ExportOptions, What};
use crate::shown::shown;
use forerun_core::array::{Array, ArraySpec, Level};
use forerun_core::units::BLOCK_BYTES;
use std::path::{Path, PathBuf};

/// Geometries that the kernel, or members themselves, may tell of, where none is given: the usual one first, then the least and the most.
const MAY_BE: [&str; 5] = ["single:128KiB", "single:4KiB", "single:4MiB", "raid0:2x4KiB", "raid0:64x4MiB"];

/// Refuses what could not be served whatever the members hold. Returns arrays of the geometries that it may have, to hold a scheme against: one where it
/// is known.
pub(crate) fn check(export: &ExportOptions) -> Result<Vec<Array>, ServeError> {
    crate::member_tls::check(&export.member_tls)?;
    for name in export.what.members().iter().filter_map(|member| member.emulate.as_ref()) {
        crate::emulate::build(name).map_err(|why| ServeError::option("emulate", why))?;
    }
    let trust = export.member_tls.ca.is_some();
    let spec = match &export.what {
        What::Over { member, array } => {
            let spec =
                array.as_ref().map(|text| text.parse().map_err(|why| ServeError::option("--array", why)));
            let spec: Option<ArraySpec> = spec.transpose()?;
            spec.as_ref().map_or(Ok(()), check_over)?;
            check_name(&member.path, trust, export.read_only)?;
            spec
        }
        What::Stripe { strip_bytes, members } => {
            let paths: Vec<PathBuf> = members.iter().map(|member| member.path.clone()).collect();
            let spec = stripe_spec(&paths, *strip_bytes)?;
            // A stripe is read-only whatever is said.
            paths.iter().try_for_each(|path| check_name(path, trust, true))?;
            Some(spec)
        }
        // What its members say is known when they are open.
        What::Array { .. } => None,
    };
    let specs = match spec {
        Some(spec) => vec![spec],
        None => MAY_BE.iter().map(|text| text.parse().expect("a geometry")).collect(),
    };
    let least = |spec: ArraySpec| Array::new(spec, spec.strip_bytes() / BLOCK_BYTES);
    let arrays: Result<_, _> = specs.into_iter().map(least).collect();
    arrays.map_err(|why| ServeError::option("--array", why))
}

/// Refuses a geometry that does not lie over one member.
pub(super) fn check_over(spec: &ArraySpec) -> Result<(), ServeError> {
    check_strip(spec)?;
    if matches!(spec.level(), Level::Single | Level::Raid0) {
        return Ok(());
    }
    let why = format!(
        "{spec} keeps parity or mirrors, which lies below what is served: give the data disks as \
         raid0:NxSTRIP (raid5:5x128K has 4)"
    );
    Err(ServeError::option("--array", why))
}

/// The geometry of a stripe.
pub(super) fn stripe_spec(paths: &[PathBuf], strip_bytes: u64) -> Result<ArraySpec, ServeError> {
    if paths.len() > MEMBERS_MAX {
        let why = format!("{} members are more than {MEMBERS_MAX}", paths.len());
        return Err(ServeError::option("--stripe", why));
    }
    super::check_distinct("--stripe", paths)?;
    let level = if paths.len() == 1 { Level::Single } else { Level::Raid0 };
    let spec = ArraySpec::new(level, paths.len() as u16, strip_bytes)
        .map_err(|why| ServeError::option("--stripe", why))?;
    check_strip(&spec)?;
    Ok(spec)
}

/// Refuses the name of a far member that nobody could reach as it is.
fn check_name(path: &Path, trust: bool, read_only: bool) -> Result<(), ServeError> {
    let Some(text) = path.to_str() else { return Ok(()) };
    if Address::is_meant(text) {
        return check_trust(&address(text)?, trust);
    }
    if is_object(text) { check_object(text, read_only) } else { Ok(()) }
}

/// The address of a far member.
pub(super) fn address(text: &str) -> Result<Address, ServeError> {
    text.parse().map_err(|why: String| ServeError::option("--over", why))
}

/// Whether it is known whom to trust where somebody is to be trusted, and nobody goes without.
pub(super) fn check_trust(address: &Address, trust: bool) -> Result<(), ServeError> {
    match (&address.tls, trust, &address.server) {
        (Some(_), false, _) => {
            let why = format!(
                "{address}: nobody said whom to trust: --member-tls-ca FILE names the authority of its certificate \
                 (/etc/ssl/certs/ca-certificates.crt holds those of the system)"
            );
            Err(ServeError::option("--over", why))
        }
        (None, true, Endpoint::Tcp(..)) => {
            let why = format!("{address} goes over the network without TLS: write nbds://");
            Err(ServeError::option("--member-tls-ca", why))
        }
        _ => Ok(()),
    }
}

/// Refuses an object that is to be written, or has no key.
pub(super) fn check_object(address: &str, read_only: bool) -> Result<(), ServeError> {
    if cfg!(not(feature = "objects")) {
        let why = format!(
            "{address} is an object, and this program was built without them: build it with its default features"
        );
        return Err(ServeError::option("--over", why));
    }
    let shown = shown(Path::new(address));
    if !read_only {
        let why = format!("{shown} is an object, which nobody can write in part: serve it with --read-only");
        return Err(ServeError::option("--over", why));
    }
    // The path of an address begins behind the third slash.
    if address.splitn(4, '/').nth(3).is_none_or(str::is_empty) {
        let why = format!("{shown} names no object: give its key too, as in s3://BUCKET/KEY");
        return Err(ServeError::option("--over", why));
    }
    Ok(())
}
