//! A member with a volatile cache, as an NBD server of this process: power takes from it what was not flushed, sector by sector.

use crate::shaken::Shaken;
use forerun_serve::nbd::wire::{Command, Request, data_chunk, export, request, simple_reply};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

pub(super) const SECTOR: usize = 512;

/// SplitMix64.
pub(super) struct Draw(pub(super) u64);

impl Draw {
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n
    }
}

/// One of them.
pub(super) struct Lossy {
    medium: Mutex<Medium>,
    /// It answers again.
    answers: Condvar,
    size: u64,
    /// Flushes are acknowledged, and nothing is done.
    lies: bool,
}

struct Medium {
    durable: Vec<u8>,
    seen: Vec<u8>,
    /// Of what was not flushed, the sectors in the order in which they were written.
    pending: Vec<(usize, [u8; SECTOR])>,
    /// Power cuts so far: clients that were connected before one are not heard any more.
    cuts: u64,
    /// It hangs.
    silent: bool,
}

impl Lossy {
    /// Listens, with these bytes on its medium.
    pub(super) fn start(socket: &Path, bytes: Vec<u8>, lies: bool) -> Arc<Self> {
        let listener = UnixListener::bind(socket).expect("bound");
        let size = bytes.len() as u64;
        let medium =
            Medium { seen: bytes.clone(), durable: bytes, pending: Vec::new(), cuts: 0, silent: false };
        let lossy = Arc::new(Self { medium: Mutex::new(medium), answers: Condvar::new(), size, lies });
        let member = Arc::clone(&lossy);
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let member = Arc::clone(&member);
                std::thread::spawn(move || member.serve(stream));
            }
        });
        lossy
    }

    fn medium(&self) -> MutexGuard<'_, Medium> {
        self.medium.lock().expect("whole")
    }

    /// Power goes, for all of them at one instant: of what was not flushed each sector is there or not. How many are not.
    pub(super) fn cut(all: &[&Self], draw: &mut Draw) -> u64 {
        let mut lost = 0;
        let mut media: Vec<_> = all.iter().map(|lossy| lossy.medium()).collect();
        for medium in &mut media {
            let Medium { durable, seen, pending, cuts, silent } = &mut **medium;
            (*cuts, *silent) = (*cuts + 1, false);
            for (sector, _) in &*pending {
                let at = sector * SECTOR;
                seen[at..at + SECTOR].copy_from_slice(&durable[at..at + SECTOR]);
            }
            for (sector, bytes) in pending.drain(..) {
                if draw.below(2) == 0 {
                    durable[sector * SECTOR..][..SECTOR].copy_from_slice(&bytes);
                    seen[sector * SECTOR..][..SECTOR].copy_from_slice(&bytes);
                } else {
                    lost += 1;
                }
            }
        }
        drop(media);
        all.iter().for_each(|lossy| lossy.answers.notify_all());
        lost
    }

    /// It answers nothing any more, or everything again.
    pub(super) fn hang(&self, silent: bool) {
        self.medium().silent = silent;
        self.answers.notify_all();
    }

    fn serve(&self, stream: UnixStream) -> Option<()> {
        let cuts = self.medium().cuts;
        let flags = export::HAS_FLAGS | export::SEND_FLUSH | export::SEND_FUA;
        let mut client = Shaken::hands(stream, self.size, flags)?;
        loop {
            let (request, data) = client.request()?;
            let mut reply = self.answer(&request, &data, cuts)?;
            if client.structured && request.command == Command::Read {
                let head = data_chunk(true, request.cookie, request.offset, request.length);
                reply.splice(..16, head);
            }
            client.answer(&reply)?;
        }
    }

    fn answer(&self, request: &Request, data: &[u8], cuts: u64) -> Option<Vec<u8>> {
        let mut reply = simple_reply(None, request.cookie).to_vec();
        let medium = self.medium();
        let mut medium = self.answers.wait_while(medium, |medium| medium.silent).expect("whole");
        if medium.cuts != cuts {
            return None;
        }
        let Medium { durable, seen, pending, .. } = &mut *medium;
        let range = request.offset as usize..request.offset as usize + request.length as usize;
        match request.command {
            Command::Read => reply.extend_from_slice(&seen[range]),
            Command::Write => {
                seen[range.clone()].copy_from_slice(data);
                let sectors = data.as_chunks::<SECTOR>().0.iter().enumerate();
                pending.extend(sectors.map(|(index, bytes)| (range.start / SECTOR + index, *bytes)));
            }
            Command::Flush => {}
            _ => return None,
        }
        let asked = request.command == Command::Flush || request.flags & request::FUA != 0;
        if asked && !self.lies {
            for (sector, bytes) in pending.drain(..) {
                durable[sector * SECTOR..][..SECTOR].copy_from_slice(&bytes);
            }
        }
        Some(reply)
    }
}
