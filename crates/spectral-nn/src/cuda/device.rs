//! One CUDA device: memory, kernels, streams and graphs, found at run time.
//!
//! Everything here works without a CUDA toolkit at build time, and without a GPU at run time says why not.

use crate::abi::Plain;
use cudarc::driver::sys::CUdevice_attribute_enum as Attribute;
use cudarc::driver::{CudaContext, CudaEvent, CudaGraph, CudaStream, DriverError, result, sys};
use std::ffi::c_void;
use std::sync::Arc;

/// The oldest architecture that the kernels run on: bf16 and TF32 products, and asynchronous shared memory.
const OLDEST: (i32, i32) = (8, 0);

/// Why a device cannot be used or stopped working, and what would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaError(pub String);

impl std::fmt::Display for CudaError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CudaError {}

/// Says what was being done when the driver refused.
pub(crate) fn doing(what: impl std::fmt::Display) -> impl FnOnce(DriverError) -> CudaError {
    move |error| {
        let name =
            error.error_name().ok().map_or("unknown error".into(), |n| n.to_string_lossy().into_owned());
        let hint = match error.0 {
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                ": use fewer agents, a smaller replay (--set replay=…) or a smaller batch"
            }
            sys::CUresult::CUDA_ERROR_NO_DEVICE => ": no GPU is visible (see CUDA_VISIBLE_DEVICES)",
            sys::CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
            | sys::CUresult::CUDA_ERROR_INVALID_IMAGE
            | sys::CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION => ": the driver is too old; update it",
            _ => "",
        };
        CudaError(format!("CUDA failed to {what} ({name}){hint}"))
    }
}

/// Waits for the stream that plain copies use. Ours do not wait for it by themselves, and it may be behind the host.
fn settle() -> Result<(), CudaError> {
    // SAFETY: null names the stream that plain copies use, which is always there.
    unsafe { result::stream::synchronize(std::ptr::null_mut()) }.map_err(doing("finish its work"))
}

/// What a device is.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceInfo {
    /// As the driver names it.
    pub name: String,
    /// Compute capability, such as (9, 0).
    pub capability: (i32, i32),
    /// CUDA version that the driver supports, such as 13000.
    pub driver: i32,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes of memory that were free when it was opened.
    pub free: u64,
    /// Multiprocessors.
    pub multiprocessors: usize,
    /// Bytes of shared memory that a block may ask for.
    pub shared_per_block: usize,
}

impl DeviceInfo {
    /// Whether its tensor cores serve warpgroups as Hopper's do, which other architectures cannot.
    pub fn has_warpgroups(&self) -> bool {
        self.capability == (9, 0)
    }
}

/// An open device. Clones share it.
///
/// ```
/// use spectral_nn::cuda::Device;
/// match Device::open(0) {
///     Ok(device) => println!("{}", device.info().name),
///     Err(why) => println!("no GPU: {why}"),
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Device {
    pub(crate) context: Arc<CudaContext>,
    info: Arc<DeviceInfo>,
}

impl Device {
    /// How many devices there are; the error says why CUDA is not there at all.
    pub fn count() -> Result<usize, CudaError> {
        // Asked first, because the bindings panic where the library is missing.
        // SAFETY: asks the loader for the driver by its name, whose initialisers are those of a library that the system trusts.
        if !unsafe { sys::is_culib_present() } {
            return Err(CudaError(
                "no NVIDIA driver was found (libcuda is not installed); install the driver, or use --device cpu".into(),
            ));
        }
        let failed = doing("start; is the driver loaded and the device permitted?");
        Ok(CudaContext::device_count().map_err(failed)?.max(0) as usize)
    }

    /// Opens device `ordinal`.
    pub fn open(ordinal: usize) -> Result<Device, CudaError> {
        let count = Self::count()?;
        if ordinal >= count {
            return Err(CudaError(format!(
                "there is no device cuda:{ordinal}: {count} found, counted from 0"
            )));
        }
        let context = CudaContext::new(ordinal).map_err(doing(format_args!("open device {ordinal}")))?;
        // Work is ordered by our own streams and graphs; tracking every buffer would only cost time, and cannot be captured.
        // SAFETY: cudarc's own buffers, which tracking protects, are used nowhere; all memory is `Memory`, freed by its owner,
        // and `launch` asks its callers to keep it until kernels are done.
        unsafe { context.disable_event_tracking() };
        let asking = || doing("describe the device");
        let capability = context.compute_capability().map_err(asking())?;
        let (free, memory) = context.mem_get_info().map_err(asking())?;
        let mut driver = 0;
        // SAFETY: the version goes to a place for it.
        unsafe { sys::cuDriverGetVersion(&mut driver) }.result().map_err(asking())?;
        let multiprocessors =
            context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT).map_err(asking())?;
        let shared_per_block = context
            .attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
            .map_err(asking())?;
        let info = DeviceInfo {
            name: context.name().map_err(asking())?,
            capability,
            driver,
            memory: memory as u64,
            free: free as u64,
            multiprocessors: multiprocessors.max(1) as usize,
            shared_per_block: shared_per_block.max(0) as usize,
        };
        if capability < OLDEST {
            return Err(CudaError(format!(
                "{} has compute capability {}.{}; {}.{} or newer is needed (Ampere and later)",
                info.name, capability.0, capability.1, OLDEST.0, OLDEST.1
            )));
        }
        Ok(Device { context, info: Arc::new(info) })
    }

    /// What it is.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Bytes of memory that are free now.
    pub fn free_memory(&self) -> Result<u64, CudaError> {
        Ok(self.context.mem_get_info().map_err(doing("ask for free memory"))?.0 as u64)
    }

    /// Memory on the device, all zero.
    pub fn zeros(&self, bytes: usize) -> Result<Memory, CudaError> {
        self.bind()?;
        let what = format!("reserve {bytes} bytes of device memory");
        // SAFETY: of a size that is not 0, in the context that was just bound; `Memory` frees it once.
        let at = unsafe { result::malloc_sync(bytes.max(16)) }.map_err(doing(what))?;
        let memory = Memory { device: self.clone(), at, bytes, host: None };
        // SAFETY: exactly the bytes that were just reserved.
        unsafe { result::memset_d8_sync(at, 0, bytes.max(16)) }.map_err(doing("clear memory"))?;
        settle()?;
        Ok(memory)
    }

    /// Memory of the host that the device reads and writes directly, all zero.
    pub fn pinned(&self, bytes: usize) -> Result<Memory, CudaError> {
        self.bind()?;
        let what = format!("pin {bytes} bytes of the machine's memory");
        // Portable and mapped: with unified addressing its address is the same on both sides.
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: of a size that is not 0, in the context that was just bound; `Memory` frees it once.
        let host = unsafe { result::malloc_host(bytes.max(16), flags) }.map_err(doing(what))?;
        // SAFETY: exactly the bytes that were just reserved.
        unsafe { std::ptr::write_bytes(host.cast::<u8>(), 0, bytes.max(16)) };
        Ok(Memory { device: self.clone(), at: host as u64, bytes, host: Some(Host(host.cast())) })
    }

    /// A stream of its own, of the lowest rank.
    pub fn stream(&self) -> Result<Stream, CudaError> {
        Ok(Stream { stream: self.context.new_stream().map_err(doing("make a stream"))? })
    }

    /// A stream whose kernels go before those of streams of lower rank where both wait for room on the device.
    pub fn ranked_stream(&self, rank: Rank) -> Result<Stream, CudaError> {
        self.bind()?;
        let (least, greatest) = result::stream::get_priority_range().map_err(doing("say its priorities"))?;
        let priority = match rank {
            Rank::First => greatest,
            Rank::Second => (least + greatest) / 2,
        };
        let stream = self.context.new_stream_with_priority(priority).map_err(doing("make a stream"))?;
        Ok(Stream { stream })
    }

    /// An event that measures time.
    pub fn event(&self) -> Result<Event, CudaError> {
        let flags = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
        Ok(Event(self.context.new_event(flags).map_err(doing("make an event"))?))
    }

    /// An event that only orders work.
    pub fn mark(&self) -> Result<Event, CudaError> {
        Ok(Event(self.context.new_event(None).map_err(doing("make an event"))?))
    }

    /// Waits for everything.
    pub fn synchronise(&self) -> Result<(), CudaError> {
        self.context.synchronize().map_err(doing("finish its work"))
    }

    pub(crate) fn bind(&self) -> Result<(), CudaError> {
        self.context.bind_to_thread().map_err(doing("serve this thread"))
    }
}

#[derive(Debug)]
struct Host(*mut u8);

/// A stretch of memory on the device, or of pinned memory on the host.
#[derive(Debug)]
pub struct Memory {
    device: Device,
    at: u64,
    bytes: usize,
    host: Option<Host>,
}

// SAFETY: the memory belongs to this value alone; the driver's calls may come from any thread.
unsafe impl Send for Memory {}
// SAFETY: through a shared reference, memory is copied by the driver, which orders its copies, or named to kernels by unsafe calls.
unsafe impl Sync for Memory {}

impl Memory {
    /// Its address as kernels see it.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// The address of byte `offset`.
    ///
    /// # Panics
    /// If it lies outside.
    pub fn offset(&self, offset: usize) -> u64 {
        assert!(offset <= self.bytes, "byte {offset} of {}", self.bytes);
        self.at + offset as u64
    }

    /// How long it is.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// True if it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Copies numbers to it, `offset` bytes from its start, and waits.
    pub fn write<T: Plain>(&self, offset: usize, from: &[T]) -> Result<(), CudaError> {
        assert!(offset + std::mem::size_of_val(from) <= self.bytes, "a copy beyond the end of the memory");
        if from.is_empty() {
            return Ok(());
        }
        self.device.bind()?;
        // SAFETY: the copy ends within the memory, as was asserted, and what it takes has no padding.
        unsafe { result::memcpy_htod_sync(self.at + offset as u64, from) }
            .map_err(doing("copy to the device"))?;
        settle()
    }

    /// Copies numbers from it and waits.
    pub fn read<T: Plain>(&self, offset: usize, to: &mut [T]) -> Result<(), CudaError> {
        assert!(offset + std::mem::size_of_val(to) <= self.bytes, "a copy beyond the end of the memory");
        if to.is_empty() {
            return Ok(());
        }
        self.device.bind()?;
        // SAFETY: the copy begins and ends within the memory, as was asserted, and any bytes are values.
        unsafe { result::memcpy_dtoh_sync(to, self.at + offset as u64) }
            .map_err(doing("copy from the device"))
    }

    /// Where pinned memory starts for the host.
    ///
    /// # Panics
    /// If it lies on the device.
    pub fn host_pointer(&self) -> *mut u8 {
        self.host.as_ref().expect("pinned memory").0
    }

    /// The bytes of pinned memory. The device must not be using them meanwhile.
    ///
    /// # Panics
    /// If it lies on the device.
    pub fn host_bytes(&mut self) -> &mut [u8] {
        // SAFETY: so many bytes, zeros at first, that nobody else on the host can use while this is borrowed; that the device
        // leaves them alone is what the unsafe calls that queue work are told to see to.
        unsafe { std::slice::from_raw_parts_mut(self.host_pointer(), self.bytes) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // Nobody can act on a failure here, and a lost device has freed its memory anyway.
        let _ = self.device.bind();
        // SAFETY: reserved by `zeros` or `pinned` as the kind that it is freed as, and freed once; work that uses it is done, as
        // the unsafe calls that queued it were promised.
        let _ = unsafe {
            match &self.host {
                None => result::free_sync(self.at),
                Some(host) => result::free_host(host.0.cast()),
            }
        };
    }
}

/// An argument of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arg {
    /// An address.
    At(u64),
    /// A C `int`.
    Int(i32),
    /// A C `float`.
    Float(f32),
}

impl From<&Memory> for Arg {
    fn from(memory: &Memory) -> Arg {
        Arg::At(memory.at)
    }
}

/// A compiled kernel, with the module it belongs to.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub(crate) function: cudarc::driver::CudaFunction,
    pub(crate) name: Arc<str>,
}

impl Kernel {
    /// Lets the kernel use this much dynamic shared memory, and has multiprocessors keep all they can for shared memory while
    /// it runs, so that several of its blocks find room.
    pub fn allow_shared(&self, bytes: usize) -> Result<(), CudaError> {
        use sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as LIMIT;
        use sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT as PERCENT;
        let failed = || doing(format!("give kernel {} {bytes} bytes of shared memory", self.name));
        self.function.set_attribute(LIMIT, bytes as i32).map_err(failed())?;
        self.function.set_attribute(PERCENT, 100).map_err(failed())
    }
}

/// The shape of a launch: blocks, threads per block, bytes of dynamic shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Blocks in three directions.
    pub grid: [usize; 3],
    /// Threads per block.
    pub threads: usize,
    /// Bytes of dynamic shared memory.
    pub shared: usize,
}

impl Shape {
    /// Without dynamic shared memory.
    pub fn new(grid: [usize; 3], threads: usize) -> Shape {
        Shape { grid, threads, shared: 0 }
    }
}

/// How much a stream's work is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// Before all others.
    First,
    /// Before ordinary streams.
    Second,
}

/// Work in order.
#[derive(Clone, Debug)]
pub struct Stream {
    pub(crate) stream: Arc<CudaStream>,
}

impl Stream {
    /// Queues a kernel.
    ///
    /// # Safety
    /// The arguments must be what the kernel expects, and the memory that they name must outlive its run. Until it is done,
    /// the host must not use what it writes of pinned memory, except by volatile reads, nor write what it reads.
    pub unsafe fn launch(&self, kernel: &Kernel, shape: Shape, args: &[Arg]) -> Result<(), CudaError> {
        // SAFETY: the caller keeps the same contract.
        unsafe { self.start(kernel, shape, args, false) }
    }

    /// Queues a kernel whose blocks may start as soon as those of the one queued before it allow it, and wait themselves until
    /// that one is done (`griddepcontrol`). For compute capability 9.0 and later.
    ///
    /// # Safety
    /// As [`launch`](Stream::launch); and before it waits, the kernel may touch only what no kernel still at work changes.
    pub unsafe fn launch_early(&self, kernel: &Kernel, shape: Shape, args: &[Arg]) -> Result<(), CudaError> {
        // SAFETY: the caller keeps the same contract, that of an early start included.
        unsafe { self.start(kernel, shape, args, true) }
    }

    /// # Safety
    /// As [`launch`](Stream::launch), or [`launch_early`](Stream::launch_early) if it starts early.
    unsafe fn start(
        &self,
        kernel: &Kernel,
        shape: Shape,
        args: &[Arg],
        early: bool,
    ) -> Result<(), CudaError> {
        let mut values: [u64; 24] = [0; 24];
        let mut pointers: [*mut c_void; 24] = [std::ptr::null_mut(); 24];
        assert!(args.len() <= 24, "too many arguments for one kernel");
        for (i, arg) in args.iter().enumerate() {
            values[i] = match *arg {
                Arg::At(at) => at,
                Arg::Int(x) => u64::from(x as u32),
                Arg::Float(x) => u64::from(x.to_bits()),
            };
            // A little-endian machine finds the 4 bytes of an int or a float at the start of the 8.
            pointers[i] = (&raw mut values[i]).cast();
        }
        let mut attribute = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let [x, y, z] = shape.grid.map(|n| n as u32);
        let config = sys::CUlaunchConfig {
            gridDimX: x,
            gridDimY: y,
            gridDimZ: z,
            blockDimX: shape.threads as u32,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: shape.shared as u32,
            hStream: self.stream.cu_stream(),
            attrs: &raw mut attribute,
            numAttrs: u32::from(early),
        };
        let function = kernel.function.cu_function();
        // SAFETY: configuration, attribute and arguments live until the call returns, which copies them; that the arguments are
        // what the kernel expects, the caller promises.
        unsafe { sys::cuLaunchKernelEx(&config, function, pointers.as_mut_ptr(), std::ptr::null_mut()) }
            .result()
            .map_err(|e| doing(format_args!("launch kernel {}", kernel.name))(e))
    }

    /// Queues a copy of a range of bytes to pinned memory of the host, to byte `at` of it.
    ///
    /// # Safety
    /// Both memories must outlast the copy, and nobody may use that part of the pinned one until it is done.
    ///
    /// # Panics
    /// If either lies outside, or the second is no pinned memory.
    pub unsafe fn fetch(
        &self,
        from: &Memory,
        range: std::ops::Range<usize>,
        to: &Memory,
        at: usize,
    ) -> Result<(), CudaError> {
        let len = range.len();
        assert!(range.end <= from.bytes && at + len <= to.bytes, "a copy beyond the end of the memory");
        if len == 0 {
            return Ok(());
        }
        from.device.bind()?;
        let to = to.host_pointer().wrapping_add(at);
        // SAFETY: within the memory, as was just checked, and whoever calls sees to the rest.
        unsafe {
            let to = std::slice::from_raw_parts_mut(to, len);
            result::memcpy_dtoh_async(to, from.offset(range.start), self.stream.cu_stream())
        }
        .map_err(doing("copy from the device"))
    }

    /// Makes what is queued here later wait for what is queued in the other stream now.
    pub fn wait_for(&self, other: &Stream, mark: &Event) -> Result<(), CudaError> {
        mark.0.record(&other.stream).map_err(doing("mark a point in a stream"))?;
        self.stream.wait(&mark.0).map_err(doing("order two streams"))
    }

    /// Marks this point in time.
    pub fn record(&self, event: &Event) -> Result<(), CudaError> {
        event.0.record(&self.stream).map_err(doing("mark a point in a stream"))
    }

    /// Whether everything queued is done; an error if the device has failed.
    pub fn is_done(&self) -> Result<bool, CudaError> {
        // SAFETY: the stream is there as long as `self`.
        match unsafe { sys::cuStreamQuery(self.stream.cu_stream()) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            status => status.result().map(|()| true).map_err(doing("finish its work")),
        }
    }

    /// Waits until everything queued is done.
    pub fn synchronise(&self) -> Result<(), CudaError> {
        self.stream.synchronize().map_err(doing("finish its work"))
    }

    /// Captures what `queue` queues here as a graph that can be replayed.
    pub fn capture(&self, queue: impl FnOnce() -> Result<(), CudaError>) -> Result<Graph, CudaError> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        self.stream.begin_capture(mode).map_err(doing("capture a graph"))?;
        let queued = queue();
        let graph = self.stream.end_capture(sys::CUgraphInstantiate_flags(0));
        queued?;
        let graph = graph.map_err(doing("capture a graph"))?;
        Ok(Graph(graph.ok_or_else(|| CudaError("CUDA captured an empty graph".into()))?))
    }
}

/// A point in a stream.
#[derive(Debug)]
pub struct Event(pub(crate) CudaEvent);

impl Event {
    /// Milliseconds from this event to a later one, both reached.
    pub fn milliseconds_until(&self, later: &Event) -> Result<f32, CudaError> {
        self.0.elapsed_ms(&later.0).map_err(doing("measure time"))
    }
}

/// Queued work that can be replayed at once.
pub struct Graph(CudaGraph);

// SAFETY: a graph may be used from any thread, one at a time; it is not `Sync`, so never by two.
unsafe impl Send for Graph {}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Graph")
    }
}

impl Graph {
    /// Queues the whole graph in the stream it was captured from.
    pub fn launch(&self) -> Result<(), CudaError> {
        self.0.launch().map_err(doing("launch a graph"))
    }

    /// Brings it to the device, so that its first launch costs no more than the others.
    pub fn upload(&self) -> Result<(), CudaError> {
        self.0.upload().map_err(doing("upload a graph"))
    }
}
