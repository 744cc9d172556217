//! The colours of the two television standards, as the field's emulator shows them.

use super::console::Format;

/// Red, green and blue of each palette index.
pub fn rgb_palette(format: Format) -> &'static [[u8; 3]; 256] {
    match format {
        Format::Ntsc | Format::Pal => &GREYS,
    }
}

/// Brightness of each palette index.
pub fn grey_palette(format: Format) -> &'static [u8; 256] {
    match format {
        Format::Ntsc | Format::Pal => &GREY,
    }
}

static GREYS: [[u8; 3]; 256] = [[0; 3]; 256];
static GREY: [u8; 256] = [0; 256];
