//! Chance, and noise that is smooth. Only with additions, products and roots, which are the same on
//! every machine; sines are not.

/// A generator of numbers from a seed (SplitMix64).
pub(super) struct Rng {
    state: u64,
}

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From one number up to, but not including, another.
    pub(super) fn range(&mut self, from: f32, to: f32) -> f32 {
        let unit = (self.next() >> 40) as f32 / 16_777_216.0;
        from + (to - from) * unit
    }

    /// One of so many.
    pub(super) fn below(&mut self, count: usize) -> usize {
        (self.next() % count.max(1) as u64) as usize
    }
}

/// Smooth noise over the plane.
#[derive(Clone, Copy)]
pub(super) struct Noise {
    seed: u32,
}

impl Noise {
    pub(super) fn new(rng: &mut Rng) -> Self {
        Self { seed: (rng.next() >> 32) as u32 }
    }

    /// From about -1 to 1, as wide as its grid of whole numbers.
    pub(super) fn at(&self, x: f32, y: f32) -> f32 {
        let (left, top) = (x.floor(), y.floor());
        let (dx, dy) = (x - left, y - top);
        let (column, row) = (left as i32, top as i32);
        let corner = |right: i32, below: i32| {
            let pull = self.pull(column.wrapping_add(right), row.wrapping_add(below));
            pull.0 * (dx - right as f32) + pull.1 * (dy - below as f32)
        };
        let (across, down) = (ease(dx), ease(dy));
        let above = mix(corner(0, 0), corner(1, 0), across);
        let under = mix(corner(0, 1), corner(1, 1), across);
        1.5 * mix(above, under, down)
    }

    /// Several noises, each finer and weaker than the one before.
    pub(super) fn layers(&self, mut x: f32, mut y: f32, count: u32) -> f32 {
        let (mut sum, mut weight, mut all) = (0.0, 1.0, 0.0);
        for _ in 0..count {
            sum += weight * self.at(x, y);
            all += weight;
            weight *= 0.5;
            // Turned a little, so that the grids do not show.
            (x, y) = (1.6 * x + 1.2 * y + 17.3, -1.2 * x + 1.6 * y + 9.1);
        }
        sum / all
    }

    /// The direction in which a corner of the grid rises.
    fn pull(&self, x: i32, y: i32) -> (f32, f32) {
        let mut hash = self.seed ^ (x as u32).wrapping_mul(0x85eb_ca6b);
        hash = (hash ^ (hash >> 15)).wrapping_add((y as u32).wrapping_mul(0xc2b2_ae35));
        hash = (hash ^ (hash >> 16)).wrapping_mul(0x7feb_352d);
        hash = (hash ^ (hash >> 15)).wrapping_mul(0x846c_a68b);
        turn((hash >> 8) as f32 / 16_777_216.0)
    }
}

/// The point at a part of a turn on a circle of about radius 1: four arcs that meet smoothly.
pub(super) fn turn(part: f32) -> (f32, f32) {
    (wave(part + 0.25), wave(part))
}

/// A wave of length 1 between -1 and 1, by eye a sine.
fn wave(at: f32) -> f32 {
    let at = at - at.floor();
    let half = if at < 0.5 { at } else { at - 0.5 };
    let arc = 16.0 * half * (0.5 - half);
    let arc = arc * (0.775 + 0.225 * arc);
    if at < 0.5 { arc } else { -arc }
}

pub(super) fn mix(from: f32, to: f32, part: f32) -> f32 {
    from + (to - from) * part
}

/// From 0 to 1 without corners.
fn ease(part: f32) -> f32 {
    part * part * part * (part * (part * 6.0 - 15.0) + 10.0)
}

/// Where a number is between two others, eased; 0 before and 1 behind them.
pub(super) fn step(from: f32, to: f32, at: f32) -> f32 {
    let part = ((at - from) / (to - from)).clamp(0.0, 1.0);
    part * part * (3.0 - 2.0 * part)
}
