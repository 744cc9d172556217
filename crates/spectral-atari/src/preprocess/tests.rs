//! Every kernel gives what the portable one gives (which is compared with OpenCV in the tests of the crate).

use super::area::{Area, SIDE, WIDTH};
use super::instructions::Instructions;
use proptest::prelude::*;

/// Bands of lines, some of them repeated, made of a few colours; with `odd`, colours that are odd numbers too.
fn picture(height: usize, seed: u64, odd: bool) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as usize
    };
    let mask = if odd { 0xff } else { 0xfe };
    let mut pixels = Vec::new();
    while pixels.len() < height * WIDTH {
        let mut line = vec![next() as u8 & mask; WIDTH];
        for _ in 0..next() % 20 {
            let (from, long, colour) = (next() % WIDTH, next() % 30, next() as u8 & mask);
            line[from..(from + long).min(WIDTH)].fill(colour);
        }
        for _ in 0..1 + next() % 3 {
            pixels.extend_from_slice(&line);
        }
    }
    pixels.truncate(height * WIDTH);
    pixels
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn kernels_agree(
        height in prop::sample::select(vec![210_usize, 250, 214, 220, 230, 84, 168, 252]),
        seed: u64,
        odd: bool,
        same: bool,
        contrast in 0..3_u32,
    ) {
        let first = picture(height, seed, odd);
        let second = if same { first.clone() } else { picture(height, seed.rotate_left(17), odd) };
        // Few levels of grey make many halves.
        let grey = std::array::from_fn(|colour| (colour as u8).wrapping_mul(77) >> (3 * contrast));
        let mut expected = vec![0; SIDE * SIDE];
        Area::with(height, Instructions::Portable).pool(&first, &second, &grey, &mut expected);
        for instructions in Instructions::available() {
            let mut area = Area::with(height, instructions);
            let mut found = vec![0; SIDE * SIDE];
            // What another picture left behind must not matter.
            area.pool(&second, &picture(height, !seed, odd), &grey, &mut found);
            area.pool(&first, &second, &grey, &mut found);
            prop_assert_eq!(&found, &expected, "{:?}", instructions);
        }
    }
}

#[test]
fn pictures_of_the_usual_height_have_the_fast_path() {
    assert!(Area::new(210).division.is_some());
}
