//! Colours that go together.

use super::{drawing::Drawing, noise::Rng};

/// A colour in amounts of light, each from 0 to 1.
pub(super) type Light = [f32; 3];

/// Five colours, from the darkest to the brightest.
#[derive(Clone, Copy)]
pub(super) struct Palette {
    colours: [Light; 5],
}

/// Words, and the colours that they ask for.
const ALL: [(&[&str], [u32; 5]); 10] = [
    (&["sunset", "dusk", "dawn", "love"], [0x1b1035, 0x4b1d6b, 0xb23a7a, 0xff8a5c, 0xffe2a8]),
    (&["ocean", "sea", "water", "lake"], [0x061a2e, 0x0b4f6c, 0x1793a5, 0x7fd1c7, 0xf3efd9]),
    (&["forest", "green", "garden", "spring"], [0x0d1f17, 0x1f4d36, 0x5a8f4e, 0xc2cf7a, 0xfff4cf]),
    (
        &["fire", "ember", "lava", "red", "autumn"],
        [0x150b0b, 0x5c1a1b, 0xc0392b, 0xf39c50, 0xfde8c0],
    ),
    (&["ice", "snow", "winter", "blue", "sky"], [0x0d1b3e, 0x2a4d8f, 0x6fa3d8, 0xc4e3f3, 0xffffff]),
    (&["aurora", "northern", "emerald"], [0x071021, 0x123a4a, 0x1f8a70, 0x8be8a8, 0xf1ffe0]),
    (&["candy", "pink", "flower", "pastel"], [0x2b1a4a, 0x7d3fa5, 0xf06ea9, 0xffc1a6, 0xfff6e0]),
    (&["desert", "sand", "gold", "coffee"], [0x2a1410, 0x7a3b22, 0xc9803d, 0xebc27b, 0xfbf1d8]),
    (
        &["night", "space", "star", "galaxy", "dream"],
        [0x04050f, 0x131a40, 0x31408c, 0x8f8fd8, 0xf4e9ff],
    ),
    (&["stone", "grey", "gray", "fog", "mist"], [0x101418, 0x34404c, 0x71838f, 0xbcc9cf, 0xf6f4ee]),
];

impl Palette {
    /// The one that the prompt asks for, or any.
    pub(super) fn choose(drawing: &Drawing, rng: &mut Rng) -> Self {
        // Drawn in any case: a word changes the colours, not everything after them.
        let any = rng.below(ALL.len());
        let asked = ALL.iter().position(|(words, _)| drawing.says(words));
        let colours = ALL[asked.unwrap_or(any)].1;
        Self { colours: colours.map(light) }
    }

    /// One of the five.
    pub(super) fn colour(&self, index: usize) -> Light {
        self.colours[index.min(4)]
    }

    /// The colour at a part of the way from the darkest to the brightest.
    pub(super) fn at(&self, part: f32) -> Light {
        let scaled = part.clamp(0.0, 1.0) * 4.0;
        let index = (scaled as usize).min(3);
        blend(self.colours[index], self.colours[index + 1], scaled - index as f32)
    }
}

pub(super) fn blend(from: Light, to: Light, part: f32) -> Light {
    std::array::from_fn(|it| from[it] + (to[it] - from[it]) * part)
}

pub(super) fn scale(colour: Light, by: f32) -> Light {
    colour.map(|it| it * by)
}

fn light(colour: u32) -> Light {
    [colour >> 16, colour >> 8, colour].map(|it| from_byte(it as u8))
}

/// A byte as light. Screens do about the square, and a square can be undone exactly.
fn from_byte(byte: u8) -> f32 {
    let part = f32::from(byte) / 255.0;
    part * part
}

pub(super) fn to_byte(light: f32) -> u8 {
    (light.clamp(0.0, 1.0).sqrt() * 255.0 + 0.5) as u8
}
