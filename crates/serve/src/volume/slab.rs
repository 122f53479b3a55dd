//! A slab of things in flight: places are numbers that are used again, and taking one costs the same however many there are.

/// The slab.
#[derive(Debug)]
pub(super) struct Slab<T> {
    places: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Puts something in; returns its number.
    pub(super) fn put(&mut self, value: T) -> usize {
        if let Some(at) = self.free.pop() {
            self.places[at] = Some(value);
            return at;
        }
        self.places.push(Some(value));
        self.places.len() - 1
    }

    /// What has this number.
    pub(super) fn get(&mut self, at: usize) -> &mut T {
        self.places[at].as_mut().expect("what is in flight stays until it has ended")
    }

    /// Takes it out.
    pub(super) fn take(&mut self, at: usize) -> T {
        self.free.push(at);
        self.places[at].take().expect("what is in flight ends once")
    }

    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.places.len()
    }

    /// Everything in it.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().flatten()
    }
}
