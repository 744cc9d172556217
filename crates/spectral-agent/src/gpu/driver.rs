//! As much of CUDA's driver interface as tests of the kernels need.

use super::nvrtc;
use libloading::Library;
use std::ffi::{CString, c_int, c_uint, c_void};

type Handle = *mut c_void;

/// Memory of the host that the GPU reaches under the same address.
const PORTABLE_AND_MAPPED: c_uint = 3;

/// One group's kernels on the first GPU.
pub(super) struct Device {
    driver: Library,
    module: Handle,
}

impl Device {
    /// Compiles and loads a group's text.
    ///
    /// # Panics
    /// If there is no GPU, no driver or no NVRTC: the caller has said that there is.
    pub fn new(text: &str) -> Self {
        let compiler = nvrtc::load().expect("SPECTRAL_CUDA=1 needs libnvrtc");
        let ptx = nvrtc::compile(&compiler, text, "compute_90").unwrap_or_else(|log| panic!("{log}"));
        let ptx = CString::new(ptx.trim_end_matches('\0')).unwrap();
        // SAFETY: loading NVIDIA's library runs no code but its own initialisers.
        let driver = unsafe { Library::new("libcuda.so.1") }.expect("SPECTRAL_CUDA=1 needs NVIDIA's driver");
        let mut made = Device { driver, module: std::ptr::null_mut() };
        let (mut device, mut context) = (0, std::ptr::null_mut());
        // SAFETY: the signatures are those of cuda.h, and every pointer outlives its call.
        unsafe {
            made.call::<unsafe extern "C" fn(c_uint) -> c_int>("cuInit", |f| f(0));
            made.call::<unsafe extern "C" fn(*mut c_int, c_int) -> c_int>("cuDeviceGet", |f| {
                f(&mut device, 0)
            });
            type Retain = unsafe extern "C" fn(*mut Handle, c_int) -> c_int;
            made.call::<Retain>("cuDevicePrimaryCtxRetain", |f| f(&mut context, device));
            made.call::<unsafe extern "C" fn(Handle) -> c_int>("cuCtxSetCurrent", |f| f(context));
            type Load = unsafe extern "C" fn(*mut Handle, *const c_void) -> c_int;
            let mut module = std::ptr::null_mut();
            made.call::<Load>("cuModuleLoadData", |f| f(&mut module, ptx.as_ptr().cast()));
            made.module = module;
        }
        made
    }

    /// Calls a function of the driver, which must succeed.
    fn call<F: Copy>(&self, name: &str, call: impl FnOnce(F) -> c_int) {
        // SAFETY: callers give the function's type.
        let function = *unsafe { self.driver.get::<F>(name.as_bytes()) }.unwrap();
        let status = call(function);
        assert_eq!(status, 0, "{name} failed with status {status} of cuda.h");
    }

    /// Memory of the host that kernels reach under the same address.
    pub fn buffer<T: Copy>(&self, values: &[T]) -> &'static mut [T] {
        let mut at = std::ptr::null_mut();
        type Allocate = unsafe extern "C" fn(*mut Handle, usize, c_uint) -> c_int;
        let bytes = size_of_val(values).max(16);
        // SAFETY: the driver returns so many bytes, aligned to a page, which nobody else has; they are filled before
        // they are a slice.
        unsafe {
            self.call::<Allocate>("cuMemHostAlloc", |f| f(&mut at, bytes, PORTABLE_AND_MAPPED));
            let at = at.cast::<T>();
            std::ptr::copy_nonoverlapping(values.as_ptr(), at, values.len());
            std::slice::from_raw_parts_mut(at, values.len())
        }
    }

    /// Runs a kernel whose arguments are pointers, and waits for it.
    pub fn launch(&self, kernel: &str, [x, y, z]: [u32; 3], threads: u32, arguments: &mut [*mut c_void]) {
        type Find = unsafe extern "C" fn(*mut Handle, Handle, *const std::ffi::c_char) -> c_int;
        type Launch = unsafe extern "C" fn(
            Handle,
            c_uint,
            c_uint,
            c_uint,
            c_uint,
            c_uint,
            c_uint,
            c_uint,
            Handle,
            *mut *mut c_void,
            *mut *mut c_void,
        ) -> c_int;
        let name = CString::new(kernel).unwrap();
        let mut function = std::ptr::null_mut();
        let null = std::ptr::null_mut();
        // The driver wants the places of the arguments.
        let mut places: Vec<*mut c_void> =
            arguments.iter_mut().map(|a| std::ptr::from_mut(a).cast()).collect();
        // SAFETY: as above; the kernel has as many arguments, all of them pointers.
        unsafe {
            self.call::<Find>("cuModuleGetFunction", |f| f(&mut function, self.module, name.as_ptr()));
            self.call::<Launch>("cuLaunchKernel", |f| {
                f(function, x, y, z, threads, 1, 1, 0, null, places.as_mut_ptr(), null.cast())
            });
            self.call::<unsafe extern "C" fn() -> c_int>("cuCtxSynchronize", |f| f());
        }
    }
}
