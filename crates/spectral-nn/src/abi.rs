//! Structures that the host and a device's kernels share, each defined once.
//!
//! [`device_structs!`](crate::device_structs) makes of one list of fields a Rust structure and its text in CUDA C. The text
//! asserts the size of the structure and the place of every field, so that no compiler can lay it out in another way
//! unnoticed; and a structure with padding does not compile.
//!
//! ```
//! use spectral_nn::abi::{Const, DevicePtr};
//! spectral_nn::device_structs! {
//!     /// A row of numbers.
//!     pub struct Row {
//!         /// Where they are.
//!         numbers: DevicePtr<Const<f32>>,
//!         /// How many.
//!         len: u32,
//!         /// What they are multiplied by.
//!         factor: f32,
//!     }
//! }
//! let text = Row::c_text();
//! assert!(text.contains("const float* numbers;  // Where they are."));
//! assert!(text.contains("static_assert(sizeof(Row) == 16,"));
//! ```

use std::ffi::c_void;
use std::fmt::Write;
use std::marker::PhantomData;

/// Values without padding, which may be copied as bytes.
///
/// # Safety
/// Every bit pattern must be a value, and there must be no padding.
pub unsafe trait Plain: Copy {}

/// A type that CUDA C has a name for.
pub trait CType {
    /// The name.
    fn c_name() -> String;
}

macro_rules! numbers {
    ($($type:ty => $name:literal),*) => {
        $(// SAFETY: numbers have no padding, and every pattern of their bits is one.
        unsafe impl Plain for $type {}
        impl CType for $type {
            fn c_name() -> String {
                $name.into()
            }
        })*
    };
}

numbers!(u8 => "u8", u16 => "u16", u32 => "u32", u64 => "u64", f32 => "float", f64 => "double");

impl CType for c_void {
    fn c_name() -> String {
        "void".into()
    }
}

/// What is read through a pointer and never written.
#[derive(Debug)]
pub struct Const<T>(PhantomData<T>);

impl<T: CType> CType for Const<T> {
    fn c_name() -> String {
        format!("const {}", T::c_name())
    }
}

/// An address as a device's kernels see it.
#[repr(transparent)]
pub struct DevicePtr<T>(u64, PhantomData<fn() -> T>);

impl<T> From<u64> for DevicePtr<T> {
    fn from(address: u64) -> Self {
        DevicePtr(address, PhantomData)
    }
}

impl<T> Clone for DevicePtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DevicePtr<T> {}

impl<T> Default for DevicePtr<T> {
    fn default() -> Self {
        DevicePtr::from(0)
    }
}

impl<T> PartialEq for DevicePtr<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> std::fmt::Debug for DevicePtr<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

// SAFETY: a number and a mark without size, in a transparent structure: any 8 bytes are one. Following the address is up to
// kernels, whose launch is unsafe.
unsafe impl<T> Plain for DevicePtr<T> {}

impl<T: CType> CType for DevicePtr<T> {
    fn c_name() -> String {
        format!("{}*", T::c_name())
    }
}

/// The names of integers that the text of structures uses; to stand before it.
pub const C_INTEGERS: &str = "\
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
";

/// A field of a structure, for [`c_struct`].
#[doc(hidden)]
pub struct Field {
    pub name: &'static str,
    pub c_type: String,
    pub size: usize,
    pub doc: &'static [&'static str],
}

/// The text of a structure in CUDA C, which asserts that it lies there as it does here.
#[doc(hidden)]
pub fn c_struct(name: &str, size: usize, doc: &[&str], fields: &[Field]) -> String {
    let mut text = String::from("\n");
    for line in doc {
        let _ = writeln!(text, "//{line}");
    }
    let _ = writeln!(text, "struct {name} {{");
    for field in fields {
        let doc: Vec<&str> = field.doc.iter().map(|line| line.trim()).collect();
        let _ = writeln!(text, "    {} {};  // {}", field.c_type, field.name, doc.join(" "));
    }
    let _ = writeln!(text, "}};\nstatic_assert(sizeof({name}) == {size}, \"as the host lays it out\");");
    // The host's structure has no padding. So equal sizes, of the whole and of each part, mean equal places; the run-time
    // compiler of CUDA 13.0 has no offsetof.
    for Field { name: field, size, .. } in fields {
        let _ =
            writeln!(text, "static_assert(sizeof({name}::{field}) == {size}, \"as the host lays it out\");");
    }
    text
}

/// Defines structures that host and device share: see [`abi`](mod@crate::abi).
#[macro_export]
macro_rules! device_structs {
    ($($(#[doc = $doc:literal])* $vis:vis struct $name:ident {
        $($(#[doc = $field_doc:literal])* $field:ident: $type:ty),* $(,)?
    })*) => {
        $($(#[doc = $doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        $vis struct $name { $($(#[doc = $field_doc])* pub $field: $type),* }

        const _: () = {
            const fn plain<T: $crate::abi::Plain>() -> usize {
                ::std::mem::size_of::<T>()
            }
            assert!(::std::mem::size_of::<$name>() == 0 $(+ plain::<$type>())*, "padding between fields");
        };

        // SAFETY: every field is plain, and there is no padding, as was asserted.
        unsafe impl $crate::abi::Plain for $name {}

        impl $crate::abi::CType for $name {
            fn c_name() -> ::std::string::String {
                ::std::stringify!($name).into()
            }
        }

        impl $name {
            /// The structure in CUDA C.
            $vis fn c_text() -> ::std::string::String {
                $crate::abi::c_struct(
                    ::std::stringify!($name),
                    ::std::mem::size_of::<$name>(),
                    &[$($doc),*],
                    &[$($crate::abi::Field {
                        name: ::std::stringify!($field),
                        c_type: <$type as $crate::abi::CType>::c_name(),
                        size: ::std::mem::size_of::<$type>(),
                        doc: &[$($field_doc),*],
                    }),*],
                )
            }
        })*
    };
}

/// A structure as bytes.
pub fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: plain values have no padding, so every byte is initialised.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// The value that these bytes are; `None` if they are not as many.
pub fn from_bytes<T: Plain>(bytes: &[u8]) -> Option<T> {
    // SAFETY: as many bytes as the value has, and every pattern of bits is a value.
    (bytes.len() == size_of::<T>()).then(|| unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
}
