//! The machine: 6507, RIOT, TIA, cartridges and console.
