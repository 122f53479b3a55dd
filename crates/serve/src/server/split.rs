//! Two schemes side by side, as an operator wants them tried: who is whose, and what has to be there for that.

use super::Server;
use crate::connection::Connection;
use crate::control::SplitBy;
use crate::spec::{Change, EngineSpec, by};
use forerun_core::access::Context;
use forerun_core::share::Share;
use forerun_core::units::BLOCK_BYTES;

/// Clients without which a scheme has nobody beside whom its one reader could be an exception: two for each.
const CLIENTS_MIN: usize = 4;
/// Seeds that are tried for one that shares the clients out evenly.
const SEEDS: u64 = 64;

impl Server {
    /// Another scheme beside the one that there is.
    pub(super) fn split(&mut self, export: usize, scheme: &str, wanted: SplitBy) -> Result<(), String> {
        let share = match wanted {
            SplitBy::Clients => self.share_of_clients(export)?,
            SplitBy::Regions => Share::Regions,
        };
        let volume = &mut self.served[export].volume;
        if volume.spec.share().is_some() {
            return Err("two schemes are tried side by side already; ctl set scheme ends that".into());
        }
        let bytes = volume.spec.cache_blocks * BLOCK_BYTES;
        let tried = EngineSpec::new(scheme, bytes, &volume.spec.device).map_err(|why| why.to_string())?;
        let array = &volume.source.array;
        tried.check(array).map_err(|why| why.to_string())?;
        let spec = volume.spec.split(&tried, share, array).map_err(|why| why.to_string())?;
        let said =
            format!("{scheme} is tried beside {}, each for its share of {}", volume.spec.scheme, by(share));
        volume.change(Change::Scheme(spec));
        volume.say(said);
        self.exports[export] = self.served[export].describe();
        Ok(())
    }

    /// The clients that an export has now, in two halves.
    fn share_of_clients(&self, export: usize) -> Result<Share, String> {
        let is_its = |connection: &&Connection| {
            connection.socket.is_some()
                && connection.session.is_serving()
                && connection.session.export() == export
        };
        let all = self.connections.iter().flatten().filter(is_its);
        let clients: Vec<u64> = all.map(|connection| Context::new(connection.number, 0).process()).collect();
        if clients.len() < CLIENTS_MIN {
            return Err(format!(
                "{} clients are here, and by clients each scheme wants two at least: try it by regions, or in turns",
                clients.len()
            ));
        }
        let uneven = |seed: &u64| {
            let share = Share::Clients { seed: *seed };
            let tried: usize = clients.iter().map(|&client| share.arm_of(client)).sum();
            (2 * tried).abs_diff(clients.len())
        };
        let seed = (0..SEEDS).min_by_key(uneven).unwrap_or(0);
        Ok(Share::Clients { seed })
    }
}
