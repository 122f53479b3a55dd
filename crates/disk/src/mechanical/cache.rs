//! The segments of a drive's own cache: which run of sectors each holds, and which is reused next.
//!
//! A segment holds one contiguous run of at most its size; when read-ahead goes on, its start moves along. A miss
//! takes an empty segment, else the one longest unused, and only in last resort the one that read-ahead is filling
//! (DiskSim 4.0's order of preference). A write empties whatever other segment overlaps it.

/// One contiguous run of cached sectors `[start, end)`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Segment {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Holds written data.
    pub(super) written: bool,
    used: u64,
}

/// All segments of one drive.
#[derive(Clone, Debug)]
pub(super) struct Segments {
    list: Vec<Segment>,
    size: u64,
    clock: u64,
    /// Index of the segment reserved for writes, which reads never hit.
    dedicated: Option<usize>,
    read_written: bool,
}

impl Segments {
    pub(super) fn new(count: u32, size: u64, dedicated: bool, read_written: bool) -> Self {
        let count = count.max(if dedicated { 2 } else { 1 }) as usize;
        Self {
            list: vec![Segment::default(); count],
            size: size.max(1),
            clock: 0,
            dedicated: dedicated.then_some(count - 1),
            read_written,
        }
    }

    pub(super) fn get(&self, index: usize) -> Segment {
        self.list[index]
    }

    pub(super) const fn size(&self) -> u64 {
        self.size
    }

    /// The segment that holds `lba`, best one first: all of `[lba, end)`, then the freshest.
    pub(super) fn find(&self, lba: u64, end: u64) -> Option<usize> {
        let mut best = None;
        for (index, segment) in self.list.iter().enumerate() {
            let hit = segment.start <= lba && lba < segment.end;
            let allowed = Some(index) != self.dedicated && (self.read_written || !segment.written);
            if hit && allowed {
                let rank = (segment.end >= end, segment.used);
                if best.is_none_or(|(_, other)| rank > other) {
                    best = Some((index, rank));
                }
            }
        }
        best.map(|(index, _)| index)
    }

    fn touch(&mut self, index: usize) {
        self.clock += 1;
        self.list[index].used = self.clock;
    }

    /// A read was served from `index`.
    pub(super) fn hit(&mut self, index: usize) {
        self.touch(index);
    }

    fn oldest(&self, avoid: Option<usize>) -> usize {
        let mut best = (true, true, u64::MAX, 0);
        for (index, segment) in self.list.iter().enumerate() {
            if Some(index) != self.dedicated {
                let empty = segment.start == segment.end;
                best = best.min((Some(index) == avoid, !empty, segment.used, index));
            }
        }
        best.3
    }

    /// Takes a segment for a read that starts at `lba`; the one in `busy` only if there is no other.
    pub(super) fn take_for_read(&mut self, lba: u64, busy: Option<usize>) -> usize {
        let index = self.oldest(busy);
        self.touch(index);
        let segment = &mut self.list[index];
        (segment.start, segment.end, segment.written) = (lba, lba, false);
        index
    }

    /// Takes a segment for a write of `[lba, end)` and empties the others that overlap it. Returns whether the
    /// segment used last already held written data that this write does not follow.
    pub(super) fn take_for_write(&mut self, lba: u64, end: u64, busy: Option<usize>) -> bool {
        let overlaps = |s: &Segment| s.start < end && lba < s.end && s.start != s.end;
        let overlapping = (0..self.list.len()).find(|&i| overlaps(&self.list[i]) && Some(i) != busy);
        let last = self.list.iter().enumerate().max_by_key(|(_, s)| s.used).map(|(index, _)| index);
        let index = self.dedicated.or(overlapping).unwrap_or_else(|| self.oldest(busy));
        let before = self.list[index];
        let follows_elsewhere = last == Some(index) && before.written && before.end != lba;
        for segment in &mut self.list {
            if segment.start < end && lba < segment.end {
                segment.end = segment.start;
            }
        }
        self.touch(index);
        let segment = &mut self.list[index];
        (segment.start, segment.end, segment.written) = (lba, end, true);
        segment.start = segment.start.max(end.saturating_sub(self.size));
        follows_elsewhere
    }

    /// Read-ahead has filled `index` up to `end`.
    pub(super) fn grow(&mut self, index: usize, end: u64) {
        let segment = &mut self.list[index];
        segment.end = segment.end.max(end);
        segment.start = segment.start.max(segment.end.saturating_sub(self.size));
    }

    /// Sectors before the requested ones were kept too.
    pub(super) fn reach_back(&mut self, index: usize, start: u64) {
        self.list[index].start = self.list[index].start.min(start);
    }

    /// Everything before `start` was sent and dropped.
    pub(super) fn drop_before(&mut self, index: usize, start: u64) {
        let segment = &mut self.list[index];
        segment.start = segment.start.max(start.min(segment.end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_segment_longest_unused_is_taken_and_the_busy_one_last() {
        let mut cache = Segments::new(2, 100, false, true);
        let first = cache.take_for_read(0, None);
        cache.grow(first, 10);
        let second = cache.take_for_read(1000, Some(first));
        cache.grow(second, 1010);
        cache.hit(first);
        assert_eq!(cache.take_for_read(2000, None), second);
        assert_eq!(cache.take_for_read(3000, Some(first)), second);
        assert_eq!(cache.find(5, 9), Some(first));
    }

    #[test]
    fn a_write_empties_what_it_overlaps_and_may_be_read_back() {
        let mut cache = Segments::new(3, 100, false, true);
        let read = cache.take_for_read(0, None);
        cache.grow(read, 50);
        cache.take_for_write(40, 60, None);
        assert_eq!(cache.find(10, 20), None);
        assert!(cache.find(40, 60).is_some());
        let mut strict = Segments::new(3, 100, false, false);
        strict.take_for_write(40, 60, None);
        assert_eq!(strict.find(40, 60), None);
    }

    #[test]
    fn read_ahead_moves_the_start_of_a_full_segment() {
        let mut cache = Segments::new(1, 100, false, true);
        let only = cache.take_for_read(0, None);
        cache.grow(only, 130);
        assert_eq!((cache.get(only).start, cache.get(only).end), (30, 130));
    }
}
