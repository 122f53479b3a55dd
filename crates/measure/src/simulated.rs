//! A model as a target: the same loads in virtual time, so that a candidate can be probed as the device was.

use crate::load::{Done, Load, Target};
use forerun_core::access::{Context, Op};
use forerun_core::units::Nanos;
use forerun_disk::device::{Command, Device};
use forerun_disk::preset::{BuildOptions, Preset, PresetError};
use std::io;

/// The model and its clock.
pub struct Simulated {
    device: Box<dyn Device>,
    now: u64,
    next_id: u64,
}

impl Simulated {
    /// The preset's device, idle.
    ///
    /// # Errors
    /// [`PresetError`] when its numbers contradict each other.
    pub fn new(preset: &Preset, seed: u64) -> Result<Self, PresetError> {
        let options = BuildOptions { seed, ..BuildOptions::default() };
        Ok(Self { device: preset.build(&options)?, now: 0, next_id: 0 })
    }

    fn issue(&mut self, load: &Load, reader: usize, index: u64, sectors: u64) -> (u64, Done) {
        let of = &load.readers[reader];
        let lba = of.at(index, load.seed.wrapping_add(reader as u64), sectors);
        let id = self.next_id;
        self.next_id += 1;
        let context = Context::new(reader as u64, 0);
        self.device.submit(
            Nanos(self.now),
            Command { id, op: Op::Read, lba, sectors: of.sectors(), context, read_ahead: false },
        );
        (id, Done { reader, lba, issued: self.now, ended: self.now })
    }
}

impl Target for Simulated {
    fn sectors(&self) -> u64 {
        self.device.sectors()
    }

    fn run(&mut self, load: &Load) -> io::Result<Vec<Done>> {
        let (sectors, until) = (self.sectors(), self.now + load.time.0);
        let mut next: Vec<u64> = vec![0; load.readers.len()];
        let (mut issued, mut flying, mut ended) = (0, Vec::new(), Vec::new());
        for (reader, of) in load.readers.iter().enumerate() {
            for _ in 0..of.depth {
                if issued < load.requests {
                    flying.push(self.issue(load, reader, next[reader], sectors));
                    next[reader] += 1;
                    issued += 1;
                }
            }
        }
        while !flying.is_empty() {
            let Some(due) = self.device.next_event() else {
                return Err(io::Error::other("the model forgot a request"));
            };
            self.now = self.now.max(due.0);
            self.device.advance(Nanos(self.now));
            while let Some(completion) = self.device.pop() {
                let Some(place) = flying.iter().position(|(id, _)| *id == completion.id) else { continue };
                let (_, mut done) = flying.swap_remove(place);
                done.ended = completion.at.0;
                ended.push(done);
                if issued < load.requests && self.now < until {
                    flying.push(self.issue(load, done.reader, next[done.reader], sectors));
                    next[done.reader] += 1;
                    issued += 1;
                }
            }
        }
        Ok(ended)
    }

    fn rest(&mut self, time: Nanos) {
        let until = self.now + time.0;
        // What the device does by itself, such as reading ahead, happens meanwhile.
        while let Some(due) = self.device.next_event().filter(|due| due.0 <= until) {
            self.device.advance(due);
        }
        self.now = until;
        self.device.advance(Nanos(until));
    }
}
