//! Ends and beginnings: clients that leave, processes that are killed, power that goes.

use super::under::Under;
use super::{World, reserve};
use crate::crash::array::members::Members;
use crate::crash::client::Client;
use crate::crash::stamp::GRAIN;
use crate::nbd::wire::{Command, Request};

impl World {
    /// A client hangs up, whatever it was saying.
    pub(super) fn vanish(&mut self, at: usize) {
        let Some(Some(client)) = self.clients.get_mut(at) else { return };
        let number = client.number;
        client.session.lose();
        if let Some(memory) = client.session.hang_up(&mut self.shared) {
            self.volume.give_intake(memory);
        }
        client.ops.clear();
        client.forget();
        self.release();
        self.leave(at);
        self.tell(|| format!("client {number} hangs up"));
    }

    /// Sessions to which nothing can be said any more are closed; that takes a member that failed what they asked for.
    pub(super) fn part_with_the_lost(&mut self) -> Result<(), String> {
        for at in 0..self.clients.len() {
            let Some(client) = &self.clients[at] else { continue };
            if !client.session.is_lost() || client.session.is_done() || client.ops.is_empty() {
                continue;
            }
            let disks = self.wires.disks();
            if !client.ops.values().any(|op| disks.is_excused(op.sent, op.blocks())) {
                return Err(format!("the session of client {} is given up without a cause", client.number));
            }
            drop(disks);
            self.vanish(at);
        }
        Ok(())
    }

    /// Power goes, and a new process begins on what members still hold.
    pub(super) fn power_cut(&mut self) -> Result<(), String> {
        self.tally.cuts += 1;
        let survived = self.wires.disks().power_cut();
        if let Some(under) = &mut self.under {
            under.end(true, &mut self.draw);
        }
        self.tell(|| format!("power goes: of what was not durable survives {survived}"));
        self.begin(true)
    }

    /// The process is killed, and a new one begins.
    pub(super) fn kill(&mut self) -> Result<(), String> {
        let below = self.under.as_ref().and_then(Under::members).is_some_and(Members::has_lost);
        if below || self.wires.disks().has_lost() {
            // What a failed sync has lost a process that begins anew cannot know of, if the machine has not been away too.
            return self.power_cut();
        }
        self.tally.kills += 1;
        self.wires.disks().kill();
        if let Some(under) = &mut self.under {
            under.end(false, &mut self.draw);
        }
        self.tell(|| "the process is killed".into());
        self.begin(false)
    }

    fn begin(&mut self, powered: bool) -> Result<(), String> {
        self.clients.clear();
        let source = self.layout.source(&self.weather);
        let under = self.under.as_mut();
        let mut volume = Self::volume(&self.layout, source, &self.wires, under, &mut self.draw)?;
        volume.at(self.now);
        self.volume = volume;
        self.take_found()?;
        self.shared = reserve(&self.layout);
        let disks = self.wires.disks();
        disks.judge_restart(&self.floors, powered)?;
        self.floors.begin(disks.shown(), self.arrivals, powered);
        drop(disks);
        let mut disks = self.wires.disks();
        disks.begin_anew();
        disks.blame.sync = false;
        Ok(())
    }

    /// Power goes for the last time, and all of the volume is read by a new process: what is there is what must be there.
    pub(super) fn read_back(&mut self) -> Result<(), String> {
        self.power_cut()?;
        self.wires.disks().clear_up();
        let _ = self.connect();
        let size = self.exports[0].size;
        let longest = (self.layout.cache_blocks() / 8 * 4096).min(size);
        let mut offset = 0;
        while offset < size {
            let length = longest.min(size - offset) / GRAIN as u64 * GRAIN as u64;
            let client: &mut Client = self.clients[0].as_mut().expect("it came");
            let request = Request {
                flags: 0,
                command: Command::Read,
                cookie: u64::MAX - offset,
                offset,
                length: length as u32,
            };
            client.ask(request, 0, self.now);
            let end = self.now + super::ANSWER;
            while self.is_awaited() && self.now < end {
                self.settle_quietly()?;
            }
            if self.is_awaited() {
                return Err(format!("{request:?} is not answered"));
            }
            offset += length;
        }
        Ok(())
    }
}
