//! What one export becomes before anybody is served: its options checked, its members opened, its volume made.

use super::back;
use super::raid;
use super::ways::{make_backend, unmade};
use crate::backend::Backend;
use crate::emulate::{Emulated, preset_of};
use crate::error::ServeError;
use crate::fan::Fan;
use crate::geometry::Geometry;
use crate::options::{EXPORTS_MAX, ExportOptions, MemberSpec, Options, What};
use crate::raw::Arena;
use crate::shown::shown;
use crate::source::{Files, Opening, Source};
use crate::spec::EngineSpec;
use crate::volume::Volume;
use forerun_core::array::ArraySpec;
use forerun_core::size::format_size;
use forerun_core::units::{Nanos, SECTOR_BYTES};
use forerun_disk::device::Device;

/// Whether these can be the exports of one server.
pub(super) fn check_exports(exports: &[ExportOptions]) -> Result<(), ServeError> {
    if !(1..=EXPORTS_MAX).contains(&exports.len()) {
        let why = format!("a server has 1 to {EXPORTS_MAX} exports, not {}", exports.len());
        return Err(ServeError::option("exports", why));
    }
    for (index, export) in exports.iter().enumerate() {
        if export.name.len() > crate::nbd::handshake::NAME_BYTES_MAX {
            return Err(ServeError::option("--name", "a name has at most 4096 bytes"));
        }
        if export.name.chars().any(char::is_control) {
            let why = format!("{:?} has a character that no terminal shows: leave it out", export.name);
            return Err(ServeError::option("--name", why));
        }
        if exports[..index].iter().any(|other| other.name == export.name) {
            let why = format!("two exports are called {:?}: give each its own name", export.name);
            return Err(ServeError::option("--name", why));
        }
        if let Some(number) = export.ublk
            && exports[..index].iter().any(|other| other.ublk == Some(number))
        {
            let why = format!("two exports would be /dev/ublkb{number}: give each its own number");
            return Err(ServeError::option("--ublk", why));
        }
    }
    Ok(())
}

/// One export, without its members.
pub(super) fn check_export(export: &ExportOptions) -> Result<(), ServeError> {
    back::check(export)?;
    let arrays = crate::source::named::check(export)?;
    if let What::Array { members } = &export.what {
        let paths: Vec<_> = members.iter().map(|member| member.path.clone()).collect();
        crate::array::check_names(&paths)?;
    }
    let believed = export.what.members().iter().find_map(|member| member.emulate.as_ref());
    let believed = believed.map_or(export.device.as_str(), |text| preset_of(text));
    let spec = EngineSpec::new(&export.scheme, export.cache_bytes, believed)?;
    // What fits one of them may be served.
    let fits = arrays.iter().any(|array| spec.check(array).is_ok());
    if fits { Ok(()) } else { arrays.first().map_or(Ok(()), |usual| spec.check(usual)) }
}

/// The models of emulated members; a member without one is as fast as it is.
fn models(members: &[&MemberSpec], sizes: &[u64]) -> Result<Vec<Option<Box<dyn Device>>>, ServeError> {
    let model = |(member, &size): (&&MemberSpec, &u64)| {
        let Some(name) = &member.emulate else { return Ok(None) };
        let device = crate::emulate::build(name).map_err(|why| ServeError::option("emulate", why))?;
        if size.div_ceil(SECTOR_BYTES) > device.sectors() {
            let why = format!("{} is larger than a {name}", shown(&member.path));
            return Err(ServeError::option("emulate", why));
        }
        Ok(Some(device))
    };
    members.iter().zip(sizes).map(model).collect()
}

/// Says what of the members lies on no strip.
fn say_unserved(volume: &mut Volume) {
    let unserved = volume.source.unserved();
    if unserved > 0 {
        volume.say(format!(
            "{} of the members are not served: a stripe takes whole strips, and as many of each as the smallest has",
            format_size(unserved)
        ));
    }
}

/// The models of an array's members, by number.
fn models_behind(named: &[MemberSpec], source: &Source) -> Result<Vec<Option<Box<dyn Device>>>, ServeError> {
    let mut all = Vec::new();
    for behind in source.behind() {
        let of = |(files, size): &(Files, u64)| {
            let spec = named.iter().find(|spec| spec.path == files.path())?;
            Some(models(&[spec], &[*size]))
        };
        all.push(behind.as_ref().and_then(of).transpose()?.and_then(|mut one| one.pop().flatten()));
    }
    Ok(all)
}

/// What an export serves, open.
struct Sourced<'a> {
    source: Source,
    /// As they were named, in the order in which they lie.
    members: Vec<&'a MemberSpec>,
    /// What an array with redundancy is made of.
    array: Option<raid::Ready>,
    /// What the kernel says of a device.
    found: Option<Geometry>,
}

/// Opens the members of an export.
fn sourced<'a>(options: &Options, export: &'a ExportOptions) -> Result<Sourced<'a>, ServeError> {
    let how = Opening {
        read_only: export.read_only,
        direct: options.direct,
        unsafe_no_flush: export.unsafe_no_flush,
        tls: crate::member_tls::config(&export.member_tls)?,
    };
    let (mut array, mut found) = (None, None);
    let (source, members): (Source, Vec<&MemberSpec>) = match &export.what {
        What::Over { member, array } => {
            let array: ArraySpec = if let Some(text) = array {
                text.parse().map_err(|why| ServeError::option("--array", why))?
            } else {
                found = crate::geometry::of_device(&member.path);
                let usual = || crate::source::usual_array(&member.path);
                found.as_ref().map_or_else(usual, |found| found.data)
            };
            (Source::over(&member.path, array, &how)?, vec![member])
        }
        What::Stripe { strip_bytes, members } => {
            let paths: Vec<_> = members.iter().map(|member| member.path.clone()).collect();
            (Source::stripe(&paths, *strip_bytes, &how)?, members.iter().collect())
        }
        What::Array { members } => {
            let (source, ready) = raid::assemble(options, export, members, &how)?;
            array = ready;
            let order = source.in_order(members);
            (source, order)
        }
    };
    Ok(Sourced { source, members, array, found })
}

/// Opens the members of an export and makes its cache.
pub(super) fn volume(options: &Options, export: &ExportOptions) -> Result<Volume, ServeError> {
    let Sourced { mut source, members, mut array, found } = sourced(options, export)?;
    let sizes: Vec<u64> = source.members.iter().map(|member| member.size).collect();
    let models = match &array {
        Some(_) => models_behind(export.what.members(), &source)?,
        None => models(&members, &sizes)?,
    };
    let believed = members.iter().find_map(|member| member.emulate.as_ref());
    let believed = believed.map_or(export.device.as_str(), |text| preset_of(text));
    let spec = EngineSpec::new(&export.scheme, export.cache_bytes, believed)?;
    spec.check(&source.array)?;
    let (ready, said) = match &mut array {
        Some(array) => (None, std::mem::take(&mut array.said)),
        None => back::ready(options, export, &mut source)?,
    };
    let patience = if array.is_some() { raid::patience(export) } else { export.member_timeout };
    let (reach, far, lies) = (source.reach(), source.take_far(), source.array);
    let backend = |arena: &Arena| {
        let files = make_backend(options.transfer, reach, arena)?;
        let plain = match far {
            Some(far) => Box::new(Fan::new(files, far)?),
            None => files,
        };
        let emulated = models.iter().any(Option::is_some);
        let device =
            if emulated { Box::new(Emulated::new(plain, models)) as Box<dyn Backend> } else { plain };
        match (ready, array) {
            (Some(ready), _) => ready.before(device, options.transfer, lies),
            (None, Some(array)) => array.before(device, options),
            (None, None) => Ok(device),
        }
    };
    let mut volume = Volume::new(spec, source, backend).map_err(unmade)?;
    volume.set_patience(Nanos(u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX)));
    for said in said {
        volume.say(said);
    }
    for warning in volume.health().warnings {
        volume.say(warning);
    }
    say_unserved(&mut volume);
    if let (Some(found), Some(member)) = (found, members.first()) {
        volume.say(format!("{} is {}: served as {}", shown(&member.path), found.words, found.data));
    }
    Ok(volume)
}
