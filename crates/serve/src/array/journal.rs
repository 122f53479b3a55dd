//! The journal of an array: made with it, and known by a number that stands on every member.

use super::signatures::{held, wipe};
use crate::back::format::{PRINTS, Position, SUPERS, Super};
use crate::back::open::Plain;
use crate::back::replay::write_super;
use crate::error::ServeError;
use crate::options::{Direct, JOURNAL_MIN, JournalOptions};
use crate::sealed::BLOCK;
use crate::source::Journal;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Where errors point to.
const OPTION: &str = "--journal";

/// A journal that nothing was written to.
pub(super) struct New {
    journal: Journal,
    path: PathBuf,
}

impl New {
    /// Looks at what is to be it: a file that is made, or a file or a device that is blank, or whose content is given up.
    pub(super) fn look(
        how: &JournalOptions,
        members: &[PathBuf],
        force: bool,
    ) -> Result<(Self, Option<String>), ServeError> {
        let path = how.path.clone();
        let member = members.first().map_or(Path::new(""), PathBuf::as_path);
        let journal = Journal::open(how, member, Direct::Off)?;
        if journal.size < JOURNAL_MIN {
            let why = format!("{}: a journal has at least 16 MiB", path.display());
            return Err(ServeError::option(OPTION, why));
        }
        let what =
            held(&journal.plain(), journal.size).map_err(|problem| ServeError::file(&path, problem))?;
        let gave_up = match what {
            Some(what) if !force => {
                let why = format!(
                    "{} holds {what}: take another, or give it up with --force. Nothing was written",
                    path.display()
                );
                return Err(ServeError::option(OPTION, why));
            }
            what => what.map(|what| format!("{} held {what}", path.display())),
        };
        Ok((Self { journal, path }, gave_up))
    }

    /// Makes it: all of it is written once, so that a file has its room, and no old record is left. It is that of members which have `places` bytes
    /// together.
    pub(super) fn make(&mut self, id: u128, array: u128, places: u64) -> Result<(), ServeError> {
        let problem = |problem| ServeError::file(&self.path, problem);
        let (file, size) = (self.journal.plain(), self.journal.size);
        wipe(&file, size).map_err(problem)?;
        let zeros = vec![0; 1 << 20];
        let whole = size / BLOCK as u64 * BLOCK as u64;
        for from in (0..whole).step_by(zeros.len()) {
            let some = (whole - from).min(zeros.len() as u64) as usize;
            file.write_all_at(&zeros[..some], from).map_err(problem)?;
        }
        let mut about = Super {
            id,
            size: places,
            name: format!("array {array:032x}"),
            generation: 1,
            turn: 0,
            tail: Position { block: 0, seq: 1 },
            ring: size / BLOCK as u64 - SUPERS,
            prints: [0; PRINTS],
            marked: false,
            identity: String::new(),
        };
        let made: io::Result<()> = write_super(&mut Plain(&file), &mut about).and_then(|()| file.sync_all());
        made.map_err(problem)?;
        self.journal.stays();
        Ok(())
    }
}
