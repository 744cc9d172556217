//! Game programs: their bytes and their bank-switching schemes.

use super::decode::{Decoded, decode_image};
use super::recompile::Translations;

/// How a cartridge maps more memory to the 4096 addresses that the processor has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// 2048 bytes, seen twice.
    K2,
    /// 4096 bytes, nothing to switch.
    K4,
    /// Two banks of 4096 bytes; an access to `$1FF8` or `$1FF9` chooses.
    F8,
    /// `F8` with 128 bytes of memory at the bottom.
    F8SC,
    /// Four banks of 4096 bytes, chosen by `$1FF6` to `$1FF9`.
    F6,
    /// `F6` with 128 bytes of memory at the bottom.
    F6SC,
    /// Eight banks of 4096 bytes, chosen by `$1FF4` to `$1FFB`.
    F4,
    /// `F4` with 128 bytes of memory at the bottom.
    F4SC,
    /// Eight slices of 1024 bytes, three of them shown where the program chooses (Parker Brothers).
    E0,
    /// Slices of 2048 bytes and 2048 bytes of memory (M Network).
    E7,
    /// Two banks of 4096 bytes, told apart by address bit 13 (Activision).
    FE,
    /// 2048 bytes of program and 1024 of memory (Commavid).
    CV,
    /// Slices of 2048 bytes, chosen by writing to address `$3F` (Tigervision).
    Tigervision3F,
}

impl Scheme {
    /// A short name, as cartridge lists write it.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::K2 => "2K",
            Scheme::K4 => "4K",
            Scheme::F8 => "F8",
            Scheme::F8SC => "F8SC",
            Scheme::F6 => "F6",
            Scheme::F6SC => "F6SC",
            Scheme::F4 => "F4",
            Scheme::F4SC => "F4SC",
            Scheme::E0 => "E0",
            Scheme::E7 => "E7",
            Scheme::FE => "FE",
            Scheme::CV => "CV",
            Scheme::Tigervision3F => "3F",
        }
    }

    /// Whether an image of `len` bytes can have this scheme.
    fn fits(self, len: usize) -> bool {
        match self {
            Scheme::K2 => len <= 2048,
            Scheme::K4 => len == 4096,
            Scheme::F8 | Scheme::F8SC | Scheme::E0 | Scheme::FE => len == 8192,
            Scheme::F6 | Scheme::F6SC | Scheme::E7 => len == 16384,
            Scheme::F4 | Scheme::F4SC => len == 32768,
            Scheme::CV => len == 2048 || len == 4096,
            Scheme::Tigervision3F => len.is_multiple_of(2048) && (4096..=524_288).contains(&len),
        }
    }
}

/// The bytes cannot be a game program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RomError {
    /// There are no bytes at all.
    Empty,
    /// No known cartridge holds this many bytes.
    UnknownSize(usize),
    /// The cartridge has a chip of its own (that of Pitfall II), which is not emulated.
    OwnChip(usize),
    /// The scheme asked for does not go with this many bytes.
    SchemeSize(Scheme, usize),
}

impl std::fmt::Display for RomError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RomError::Empty => write!(f, "the ROM file is empty: give the bytes of a 2600 cartridge"),
            RomError::UnknownSize(len) => write!(
                f,
                "no known 2600 cartridge holds {len} bytes (expected up to 2048, or 4096, 8192, 16384 or \
                 32768): check that the file is a plain .bin image"
            ),
            RomError::OwnChip(len) => {
                write!(f, "a cartridge of {len} bytes carries the chip of Pitfall II, which is not emulated")
            }
            RomError::SchemeSize(scheme, len) => {
                write!(f, "bank-switching scheme {} does not go with {len} bytes", scheme.name())
            }
        }
    }
}

impl std::error::Error for RomError {}

/// A game program, ready to be shared by any number of consoles.
///
/// ```
/// use spectral_atari::machine::{Rom, Scheme};
/// let rom = Rom::new(&[0xEA; 4096], None).unwrap();
/// assert_eq!(rom.scheme(), Scheme::K4);
/// assert!(Rom::new(&[0; 5000], None).is_err());
/// ```
#[derive(Debug)]
pub struct Rom {
    pub(super) bytes: Box<[u8]>,
    pub(super) decoded: Box<[Decoded]>,
    scheme: Scheme,
    fingerprint: u64,
    translations: Translations,
}

impl Rom {
    /// A program from the bytes of a cartridge. Without a scheme, it is detected from the size and from the program's
    /// instructions.
    pub fn new(bytes: &[u8], scheme: Option<Scheme>) -> Result<Rom, RomError> {
        if bytes.is_empty() {
            return Err(RomError::Empty);
        }
        let scheme = match scheme {
            Some(scheme) if scheme.fits(bytes.len()) => scheme,
            Some(scheme) => return Err(RomError::SchemeSize(scheme, bytes.len())),
            None if (10240..=10496).contains(&bytes.len()) => return Err(RomError::OwnChip(bytes.len())),
            None => detect(bytes).ok_or(RomError::UnknownSize(bytes.len()))?,
        };
        let fingerprint = fingerprint(bytes);
        let mut image: Vec<u8> = match scheme {
            // Short images repeat, as their cartridges do.
            Scheme::K2 => {
                let whole: Vec<u8> = bytes.iter().copied().cycle().take(2048).collect();
                whole.repeat(2)
            }
            Scheme::CV => bytes[bytes.len() - 2048..].to_vec(),
            _ => bytes.to_vec(),
        };
        // One extra kilobyte, never plain program, stands for whatever is mapped in place of the program.
        let decoded = decode_image(&image, scheme);
        image.resize(image.len() + 1024, 0);
        let bytes = image.into_boxed_slice();
        Ok(Rom { bytes, decoded, scheme, fingerprint, translations: Translations::new() })
    }

    /// The bank-switching scheme.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The program, followed by a kilobyte that holds no program.
    pub(super) fn image(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn translations(&self) -> &Translations {
        &self.translations
    }

    /// The image offset of the kilobyte that holds no program.
    pub(super) fn void(&self) -> u32 {
        self.bytes.len() as u32 - 1024
    }

    /// A 64-bit hash (FNV-1a) of the bytes as they were given.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }
}

fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}

fn detect(bytes: &[u8]) -> Option<Scheme> {
    let has = |patterns: &[&[u8]]| {
        patterns.iter().any(|pattern| bytes.windows(pattern.len()).any(|window| window == *pattern))
    };
    let writes_3f = || bytes.windows(2).filter(|window| *window == [0x85, 0x3F]).count() >= 2;
    Some(match bytes.len() {
        // Its program fills its two kilobytes; a shorter one has no more than the instruction in common with it.
        2048 | 4096 if has(COMMAVID) => Scheme::CV,
        1..=2048 => Scheme::K2,
        4096 => Scheme::K4,
        8192 if has_superchip(bytes) => Scheme::F8SC,
        8192 if has(PARKER) => Scheme::E0,
        8192 if writes_3f() => Scheme::Tigervision3F,
        8192 if has(ACTIVISION_FE) => Scheme::FE,
        8192 => Scheme::F8,
        16384 if has_superchip(bytes) => Scheme::F6SC,
        16384 if has(M_NETWORK) => Scheme::E7,
        16384 if writes_3f() => Scheme::Tigervision3F,
        16384 => Scheme::F6,
        32768 if has_superchip(bytes) => Scheme::F4SC,
        32768 if writes_3f() => Scheme::Tigervision3F,
        32768 => Scheme::F4,
        _ => return None,
    })
}

/// Cartridges with extra memory leave the addresses of that memory unprogrammed in every bank.
fn has_superchip(bytes: &[u8]) -> bool {
    bytes.chunks(4096).all(|bank| bank[..256].iter().all(|b| *b == bank[0]))
}

/// Stores to memory at `$F3FF` and `$F400`, as Magicard and Video Life do.
const COMMAVID: &[&[u8]] = &[&[0x9D, 0xFF, 0xF3], &[0x99, 0x00, 0xF4]];
/// Accesses to the slice-choosing addresses `$1FE0` to `$1FF7`, in the mirrors that Parker's programs use.
const PARKER: &[&[u8]] = &[
    &[0x8D, 0xE0, 0x1F],
    &[0x8D, 0xE0, 0x5F],
    &[0x8D, 0xE9, 0xFF],
    &[0x0C, 0xE0, 0x1F],
    &[0xAD, 0xE0, 0x1F],
    &[0xAD, 0xE9, 0xFF],
    &[0xAD, 0xED, 0xFF],
    &[0xAD, 0xF3, 0xBF],
];
const M_NETWORK: &[&[u8]] = &[
    &[0xAD, 0xE2, 0xFF],
    &[0xAD, 0xE5, 0xFF],
    &[0xAD, 0xE5, 0x1F],
    &[0xAD, 0xE7, 0x1F],
    &[0x0C, 0xE7, 0x1F],
    &[0x8D, 0xE7, 0xFF],
    &[0x8D, 0xE7, 0x1F],
];
/// Calls into the other bank, as in Robot Tank, Decathlon, Space Shuttle and Thwocker.
const ACTIVISION_FE: &[&[u8]] = &[
    &[0x20, 0x00, 0xD0, 0xC6, 0xC5],
    &[0x20, 0xC3, 0xF8, 0xA5, 0x82],
    &[0xD0, 0xFB, 0x20, 0x73, 0xFE],
    &[0x20, 0x00, 0xF0, 0x84, 0xD6],
];

#[cfg(test)]
mod tests {
    use super::*;

    /// What is detected goes with the size, whatever the program looks like: otherwise its cartridge has no such bytes.
    #[test]
    fn detected_schemes_fit_the_size() {
        let stores: &[&[u8]] = &[&[0x85, 0x3F, 0x85, 0x3F]];
        for len in [1_usize, 2, 3, 4, 5, 2046, 2047, 2048, 4096, 8192, 16384, 32768] {
            for pattern in [COMMAVID, PARKER, M_NETWORK, ACTIVISION_FE, stores].concat() {
                // Unlike bytes before it, so that no extra memory is seen where there is a program.
                let mut image: Vec<u8> = (0..len).map(|at| at as u8 | 1).collect();
                let start = len.saturating_sub(pattern.len());
                image[start..].copy_from_slice(&pattern[..len - start]);
                let rom = Rom::new(&image, None).expect("a size that cartridges have");
                assert!(rom.scheme().fits(len), "{} of {len} bytes", rom.scheme().name());
            }
        }
    }

    #[test]
    fn the_cartridge_of_commavid_is_recognised_by_its_stores_if_it_is_full() {
        for (len, scheme) in [(3, Scheme::K2), (2047, Scheme::K2), (2048, Scheme::CV), (4096, Scheme::CV)] {
            let image: Vec<u8> = COMMAVID[0].iter().copied().cycle().take(len).collect();
            assert_eq!(Rom::new(&image, None).expect("a program").scheme(), scheme, "{len} bytes");
        }
    }
}
