//! The text of a population's kernels: the general ones with every shape put in as a constant.

use super::linear::{
    BACKWARD_BLOCKS, BACKWARD_THREADS, STREAM_SLAB, STREAM_STAGES, STREAM_THREADS, STREAM_WARPS,
    stream_blocks,
};
use super::net::net_header;
use super::plan::{BackwardKernels, ForwardKernel, InputGradientKernel, NetworkPlan, WeightGradientKernel};
use super::shapes::{Precision, Target, Trunk};
use crate::architecture::Input;
use crate::layout::Affine;

const PARTS: [&str; 13] = [
    include_str!("kernels/words.cuh"),
    include_str!("kernels/product.cuh"),
    include_str!("kernels/layers.cuh"),
    include_str!("kernels/linear.cuh"),
    include_str!("kernels/stream.cuh"),
    include_str!("kernels/head.cuh"),
    include_str!("kernels/matrices.cuh"),
    include_str!("kernels/copied.cuh"),
    include_str!("kernels/direct.cuh"),
    include_str!("kernels/direct_weights.cuh"),
    include_str!("kernels/tensor_cores.cuh"),
    include_str!("kernels/warpgroup.cuh"),
    include_str!("kernels/warpgroup_gradients.cuh"),
];

/// The CUDA C of all kernels of a population of networks; `outputs` are the widths of their heads.
///
/// ```
/// use spectral_nn::cuda::{Precision, Target, Trunk, network_source};
/// use spectral_nn::{Architecture, Head, Input};
/// let shape = Architecture::suited(Input::Vector { len: 4 }, Head::new(2, 1));
/// let target = Target { processors: 132, hopper: true, warpgroups: true, shared: 232_448 };
/// let text = network_source(&Trunk::new(&shape)?, &[2], 32, target, Precision::Bf16);
/// assert!(text.contains(" forward_0("));
/// # Ok::<(), spectral_nn::ArchitectureError>(())
/// ```
pub fn network_source(
    trunk: &Trunk,
    outputs: &[usize],
    batch: usize,
    target: Target,
    precision: Precision,
) -> String {
    text(&NetworkPlan::new(trunk, outputs, batch, target, precision))
}

/// The CUDA C of all kernels of a plan.
pub(super) fn text(plan: &NetworkPlan) -> String {
    let mut text = format!("#define MODE {}\n", plan.precision.mode());
    if plan.target.warpgroups {
        text.push_str("#define WARPGROUPS\n");
    }
    if let Some(actions) = plan.trunk.dueling {
        text.push_str(&format!("#define DUELING {actions}\n"));
    }
    if plan.target.hopper {
        text.push_str(&format!(
            "#define STREAM_WARPS {STREAM_WARPS}\n#define STREAM_STAGES {STREAM_STAGES}\n\
             #define STREAM_SLAB {STREAM_SLAB}\n"
        ));
    }
    text.push_str(&net_header());
    for part in PARTS {
        text.push_str(part);
    }
    for l in 0..plan.layers.len() {
        let layer = Layer::new(plan, l);
        let a = layer.a;
        text.push_str(&format!(
            "typedef Layer<{}, {}, {}, {}, {}, {}, {}, {}> L{l};\n",
            a.height, a.width, a.channels, a.kernel, a.stride, a.filters, a.relu, a.weights_at
        ));
        text.push_str(&layer.forward(false));
        text.push_str(&layer.forward(true));
        text.push_str(&layer.backward());
    }
    text
}

/// One layer, whose kernels' text is wanted.
struct Layer<'a> {
    plan: &'a NetworkPlan,
    l: usize,
    a: &'a Affine,
    /// What the kernels call the numbers of a minibatch's input, of the layer's outputs and of their gradients.
    input: &'static str,
    output: &'static str,
    delta: &'static str,
}

/// The arguments of a kernel's `__launch_bounds__`, and what it calls.
type Body = (String, String);

fn kernel(name: &str, bounds: &str, arguments: &str, body: &str) -> String {
    format!("extern \"C\" __global__ void __launch_bounds__({bounds}) {name}({arguments}) {{ {body} }}\n")
}

impl Layer<'_> {
    fn new(plan: &NetworkPlan, l: usize) -> Layer<'_> {
        let a = plan.trunk.layer(l);
        let number = if a.filters == 0 { "float" } else { "act_t" };
        Layer { plan, l, a, input: input_of(plan, l, false), output: number, delta: number }
    }

    fn forward(&self, acting: bool) -> String {
        let Layer { plan, l, output, .. } = self;
        let way = if acting { &plan.layers[*l].acting } else { &plan.layers[*l].forward };
        let (name, batch) = if acting { ("act", 1) } else { ("forward", plan.batch) };
        let input = input_of(plan, *l, acting);
        let (bounds, call): Body = match way {
            ForwardKernel::Warpgroup(way) => {
                let (first, rest) = (format!("L{l}, {input}"), "nets, agents, first, input, output, scale");
                way.call("warpgroup_forward", "WarpgroupForwardShape", &first, batch, rest)
            }
            ForwardKernel::Direct(direct) => {
                let arguments = direct.forward_arguments();
                let assertion = direct.assertion(&format!("ForwardShape<L{l}, {input}, {arguments}>"));
                let call = format!(
                    "{assertion} direct_forward<L{l}, {input}, {arguments}, {batch}, {acting}>(nets, agents, first, input, \
                     output, scale)"
                );
                (direct.bounds(), call)
            }
            ForwardKernel::Head { .. } => (
                way.launch().threads.to_string(),
                format!("head<L{l}, {input}, {batch}>(nets, agents, first, input, output, pitch, scale)"),
            ),
            ForwardKernel::Copied(cut) => (
                cut.tile.threads().to_string(),
                format!(
                    "static_assert(Copied<{tile}, false>::BYTES == {}, \"shared memory as planned\"); \
                     copied_forward<L{l}, {tile}, {batch}>(nets, agents, first, input, output, pitch, scale, workspace, \
                     tickets)",
                    cut.copied_shared(false),
                    tile = cut.tile.text(),
                ),
            ),
            ForwardKernel::Tiled(cut) => (
                cut.tile.threads().to_string(),
                format!(
                    "forward<L{l}, {input}, {output}, {}, {batch}>(nets, agents, first, input, output, pitch, scale, \
                     workspace, tickets)",
                    cut.tile.text()
                ),
            ),
        };
        // Direct convolutions wait when they have their weights.
        let waits = acting && !matches!(way, ForwardKernel::Direct(_));
        let wait = if waits { "wait_for_previous(); " } else { "" };
        let arguments = format!(
            "const Net* nets, int agents, int first, const {input}* input, {output}* output, int pitch, float scale, \
             float* workspace, u32* tickets"
        );
        kernel(&format!("{name}_{l}"), &bounds, &arguments, &format!("{wait}{call};"))
    }

    fn backward(&self) -> String {
        match &self.plan.layers[self.l].backward {
            BackwardKernels::Fused { twice, launch } => self.fused(*twice, launch.shared),
            BackwardKernels::Streamed { input_gradient, launch } => {
                self.input_gradient(input_gradient) + &self.streamed(launch.shared)
            }
            BackwardKernels::Separate { input_gradient, weight_gradient } => {
                let down = input_gradient.as_ref().map(|way| self.input_gradient(way));
                down.unwrap_or_default() + &self.weight_gradient(weight_gradient)
            }
        }
    }

    /// `linear_backward`, in one kernel or two.
    fn fused(&self, twice: bool, shared: usize) -> String {
        let Layer { plan, l, a, input, delta, .. } = self;
        let (head, batch) = (a.filters == 0, plan.batch);
        let even = plan.outputs.iter().all(|n| n.is_multiple_of(2)) || !head;
        let vector = even && a.filters.is_multiple_of(2) && a.weights_at.is_multiple_of(2);
        let both = head && !twice;
        let one = |name: &str, down: bool, learn: bool| {
            let arguments = format!(
                "const Net* nets, const {input}* input, const {delta}* last, const {delta}* trunk, int pitch, float scale, \
                 act_t* input_delta"
            );
            let body = format!(
                "static_assert(Backward<{delta}, {both}, {batch}>::SHARED == {shared}, \"as the host reckons\"); \
                 linear_backward<L{l}, {input}, {delta}, {both}, {vector}, {down}, {learn}, {batch}>(nets, input, last, \
                 trunk, pitch, scale, input_delta);"
            );
            let bounds = format!("{BACKWARD_THREADS}, {BACKWARD_BLOCKS}");
            kernel(&format!("{name}_{l}"), &bounds, &arguments, &body)
        };
        match twice {
            true => one("down", true, false) + &one("backward", false, true),
            false => one("backward", *l > 0, true),
        }
    }

    /// `linear_stream`.
    fn streamed(&self, shared: usize) -> String {
        let Layer { plan, l, input, delta, .. } = self;
        let batch = plan.batch;
        let arguments =
            format!("const Net* nets, int agents, const {input}* input, const {delta}* delta, float scale");
        let body = format!(
            "typedef Streamed<L{l}, {batch}> Z; \
             static_assert(Z::SHARED == {shared} && Z::THREADS + 32 == {STREAM_THREADS}, \"as the host reckons\"); \
             linear_stream<L{l}, {input}, {delta}, {batch}>(nets, agents, input, delta, scale);"
        );
        let bounds = format!("{STREAM_THREADS}, {}", stream_blocks(plan.precision));
        kernel(&format!("backward_{l}"), &bounds, &arguments, &body)
    }

    fn input_gradient(&self, way: &InputGradientKernel) -> String {
        let Layer { plan, l, delta, .. } = self;
        let batch = plan.batch;
        let (bounds, call): Body = match way {
            InputGradientKernel::Warpgroup(way) => {
                let (first, rest) = (format!("L{l}"), "nets, delta, input, input_delta");
                way.call("warpgroup_input_gradient", "WarpgroupInputGradientShape", &first, batch, rest)
            }
            InputGradientKernel::Direct(direct) => {
                let arguments = direct.gradient_arguments();
                let assertion = direct.assertion(&format!("GradientShape<L{l}, {arguments}>"));
                let call = format!(
                    "{assertion} direct_input_gradient<L{l}, {arguments}, {batch}>(nets, delta, input, input_delta)"
                );
                (direct.bounds(), call)
            }
            InputGradientKernel::Copied(cut) => (
                cut.tile.threads().to_string(),
                format!(
                    "static_assert(Copied<{tile}, true>::BYTES == {}, \"shared memory as planned\"); \
                     copied_input_gradient<L{l}, {tile}, {batch}>(nets, delta, input, input_delta)",
                    cut.copied_shared(true),
                    tile = cut.tile.text(),
                ),
            ),
            InputGradientKernel::Tiled(cut, _) => (
                cut.tile.threads().to_string(),
                format!(
                    "input_gradient<L{l}, {delta}, {}, {batch}>(nets, delta, pitch, input, input_delta)",
                    cut.tile.text()
                ),
            ),
        };
        let arguments = format!(
            "const Net* nets, const {delta}* delta, int pitch, const act_t* input, act_t* input_delta"
        );
        kernel(&format!("down_{l}"), &bounds, &arguments, &format!("{call};"))
    }

    /// The weight gradient, and the step that adds up its shares.
    fn weight_gradient(&self, way: &WeightGradientKernel) -> String {
        let Layer { plan, l, input, delta, .. } = self;
        let batch = plan.batch;
        let (bounds, call): Body = match way {
            WeightGradientKernel::Warpgroup(way) => {
                let (first, rest) = (format!("L{l}, {input}"), "input, delta, scale, partial, most");
                way.call("warpgroup_weight_gradient", "WarpgroupWeightsShape", &first, batch, rest)
            }
            WeightGradientKernel::Direct(direct) => {
                let arguments = direct.arguments();
                let assertion = direct.assertion(&format!("WeightsShape<L{l}, {input}, {arguments}>"));
                let call = format!(
                    "{assertion} direct_weight_gradient<L{l}, {input}, {arguments}, {batch}>(input, delta, scale, partial, \
                     most)"
                );
                (direct.bounds(), call)
            }
            WeightGradientKernel::Tiled(cut) => (
                cut.tile.threads().to_string(),
                format!(
                    "weight_gradient<L{l}, {input}, {delta}, {}, {batch}>(nets, input, delta, pitch, scale, partial, most)",
                    cut.tile.text()
                ),
            ),
        };
        let arguments = format!(
            "const Net* nets, const {input}* input, const {delta}* delta, int pitch, float scale, float* partial, int most"
        );
        let weights = kernel(&format!("weights_{l}"), &bounds, &arguments, &format!("{call};"));
        let arguments = "const Net* nets, const float* partial, int splits, int most";
        let call = format!("step<L{l}>(nets, partial, splits, most);");
        weights + &kernel(&format!("step_{l}"), "256", arguments, &call)
    }
}

/// What the kernels call the numbers of a layer's input.
fn input_of(plan: &NetworkPlan, l: usize, acting: bool) -> &'static str {
    match plan.trunk.input {
        Input::Planes { .. } if l == 0 && !acting && plan.planes_apart => "planar",
        Input::Planes { .. } if l == 0 => "u8",
        Input::Vector { .. } if l == 0 => "float",
        _ => "act_t",
    }
}
