//! A slow disk made of a fast file, so that read-ahead can be measured on devices that are not at hand.
//!
//! A FUSE server shows one file, `disk`, with the bytes of an image. A read of it ends when the model of `crates/disk` says
//! that a real device would have ended it; writes take no time. A loop device over that file, with direct I/O, is then a
//! block device with the model's timing under the kernel's own block layer and file systems. A second file, `stats`, tells
//! what reached the device. Everything goes with the process: it unmounts when it is told to end, and the kernel does when
//! it is killed.
//!
//! ```text
//!   program ─▶ ext4 ─▶ loop (direct I/O) ─▶ FUSE ─▶ this ─▶ image
//!                                                    └─▶ model: when it is over
//! ```

mod device;
mod mount;

use clap::Parser;
use forerun_core::units::Nanos;
use forerun_disk::preset::{BuildOptions, Preset};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// The models of the rig by name.
const MODELS: [(&str, &str); 4] = [
    ("hdd", include_str!("../models/hdd.toml")),
    ("ssd", include_str!("../models/ssd.toml")),
    ("cloud", include_str!("../models/cloud.toml")),
    ("net", include_str!("../models/net.toml")),
];

/// Shows an image as a file `disk` whose reads take the time that a modelled device takes.
#[derive(Debug, Parser)]
#[command(name = "forerun-rig", version)]
struct Args {
    /// hdd, ssd, cloud, net, `none` for no delay, or a preset of `forerun device list`
    #[arg(long)]
    model: String,
    /// The file with the bytes
    #[arg(long)]
    image: PathBuf,
    /// Folder to mount at: `disk` and `stats` appear in it
    #[arg(long)]
    at: PathBuf,
    /// Seed of models with chance in them
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What the way to here and back takes, in nanoseconds (a read of 4 KiB with the model `none`): answers leave so much before the
    /// model has them end, so that the device as a whole has the model's timing
    #[arg(long, value_name = "NS", default_value_t = 0)]
    way: u64,
}

fn model(args: &Args) -> Result<Option<Box<dyn forerun_disk::device::Device>>, String> {
    if args.model == "none" {
        return Ok(None);
    }
    let own = MODELS.iter().find(|(name, _)| *name == args.model);
    let preset = match own {
        Some((name, text)) => Preset::parse(name, text),
        None => Preset::load(&args.model),
    };
    let options = BuildOptions { drive_readahead: None, host_queue: None, seed: args.seed };
    preset.and_then(|preset| preset.build(&options)).map(Some).map_err(|problem| problem.to_string())
}

fn run(args: &Args) -> Result<(), String> {
    let model = model(args)?;
    let device = device::Timed::new(model, &args.image, Nanos(args.way))
        .map_err(|problem| format!("{}: {problem}", args.image.display()))?;
    mount::serve(device, &args.at).map_err(|problem| format!("{}: {problem}", args.at.display()))
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            drop(writeln!(std::io::stderr(), "forerun-rig: {problem}"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forerun_core::access::{Context, Op};
    use forerun_disk::device::{Command, Device};

    fn build(name: &str) -> Box<dyn Device> {
        let args = Args { model: name.into(), image: "".into(), at: "".into(), seed: 1, way: 0 };
        model(&args).expect("a model of the rig").expect("not `none`")
    }

    /// Runs reads with so many in flight; returns the nanoseconds until the last ended.
    fn time(device: &mut dyn Device, reads: &[(u64, u64)], depth: usize) -> u64 {
        let (mut now, mut next, mut ended) = (Nanos(0), 0, 0);
        while ended < reads.len() {
            while next < reads.len() && next - ended < depth {
                let (lba, sectors) = reads[next];
                let context = Context::new(1, 0);
                device.submit(
                    now,
                    Command { id: next as u64, op: Op::Read, lba, sectors, context, read_ahead: false },
                );
                next += 1;
            }
            now = device.next_event().expect("something is in flight").max(now);
            device.advance(now);
            while let Some(done) = device.pop() {
                now = now.max(done.at);
                ended += 1;
            }
        }
        now.0
    }

    fn scattered(count: u64) -> Vec<(u64, u64)> {
        (0..count).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (1 << 23) / 8 * 8, 8)).collect()
    }

    #[test]
    fn each_model_has_the_latency_and_the_rate_of_its_class() {
        // Model, latency of a lone 4 KiB read in us, rate of 1 MiB reads in MB/s: between these.
        let classes = [
            ("hdd", 3_000..15_000, 120..200),
            ("ssd", 80..100, 500..560),
            ("cloud", 500..800, 220..270),
            ("net", 4_800..5_400, 2_000..5_000),
        ];
        for (name, latency, rate) in classes {
            let reads = scattered(200);
            let each = time(&mut *build(name), &reads, 1) / 200 / 1000;
            assert!(latency.contains(&each), "{name}: a read takes {each} us");
            let long: Vec<_> = (0..200).map(|at| (at * 2048, 2048)).collect();
            let mb = 200 * 1_048_576 * 1000 / time(&mut *build(name), &long, 32);
            assert!(rate.contains(&mb), "{name}: {mb} MB/s");
        }
    }

    #[test]
    fn queues_help_where_the_device_is_wide_or_sorts() {
        for (name, least) in [("hdd", 15), ("ssd", 40), ("cloud", 25), ("net", 600)] {
            let reads = scattered(640);
            let (one, many) = (time(&mut *build(name), &reads, 1), time(&mut *build(name), &reads, 128));
            assert!(one * 10 / many >= least, "{name}: {}/10 times", one * 10 / many);
        }
    }
}
