//! The model of one agent: a [`safetensors`](mod@crate::store::safetensors) file that Python reads without us.
//!
//! It holds each layer's weights and biases as tensors with PyTorch's names and shapes ([`spectral_nn::Tensor`]), the codec's
//! statistics as `codec_state`, and metadata that say what the numbers mean. Version 0.1 wrote `model.bin`, a container of our
//! own, which is still read.

use crate::config::plain;
use crate::error::TrainError;
use crate::resolve::ResolvedRun;
use crate::store::safetensors::{self, Dtype, Tensor, TensorFile};
use crate::store::{Container, StoreError, json_quote, write_atomically};
use spectral_agent::learner::architecture;
use spectral_agent::settings::{Setting as _, Values};
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use spectral_env::{ObservationSpec, TaskSpec};
use spectral_nn::{Architecture, Layer};
use std::path::{Path, PathBuf};

/// The file's name in an agent's folder.
const NAME: &str = "model.safetensors";
/// The file's name in version 0.1.
const LEGACY_NAME: &str = "model.bin";
/// The section of that file.
const LEGACY_SECTION: &str = "model";
/// The metadata's version.
const FORMAT: &str = "spectral-rl 1";
/// The tensor of the codec's statistics.
const CODEC_STATE: &str = "codec_state";
/// The metadata's key of the checksum.
const CHECKSUM: &str = "crc32";
/// Metadata that must agree with the run, because they determine what the numbers mean.
const DECISIVE: &[&str] = &[
    "format",
    "task",
    "observation",
    "actions",
    "codec",
    "network",
    "hidden",
    "strides",
    "dueling",
    "outputs_per_action",
    "output_order",
    "discount",
    "input_scaling",
];
/// Also decisive, but compared setting by setting: a codec may gain settings that older files lack.
const CODEC_SETTINGS: &str = "codec_settings";
/// Error messages cut longer values.
const SHOWN: usize = 120;
/// Error messages list at most this many differences.
const LISTED: usize = 8;

/// The model in an agent's folder: that of version 0.1 if there is no other, or if version 0.1 trained the run further.
pub(crate) fn path_in(folder: &Path) -> PathBuf {
    let [path, legacy] = [NAME, LEGACY_NAME].map(|name| folder.join(name));
    let written = |path: &Path| path.metadata().and_then(|m| m.modified()).ok();
    if written(&legacy) > written(&path) { legacy } else { path }
}

/// Writes the model of one agent into its folder, from the bytes of
/// [`Population::save_model`](crate::population::Population::save_model), and replaces the one that was there.
///
/// A model with numbers that are not finite cannot act. It is not written, and an older one is removed.
pub fn write(
    folder: &Path,
    run: &ResolvedRun,
    agent: usize,
    frames: u64,
    model: &[u8],
) -> Result<(), TrainError> {
    let path = folder.join(NAME);
    let unfit = |e: StateError| StoreError::state(&path, &e);
    let mut from = StateReader::new(model);
    let (parameters, codec_state) = (from.f32s().map_err(unfit)?, from.f64s().map_err(unfit)?);
    from.finish().map_err(unfit)?;
    if !parameters.iter().all(|x| x.is_finite()) || !codec_state.iter().all(|x| x.is_finite()) {
        return remove(&path).and_then(|()| remove(&folder.join(LEGACY_NAME)));
    }
    let description = Description::of(run, agent)?;
    if parameters.len() != description.network.parameters() {
        let (found, expected) = (parameters.len(), description.network.parameters());
        return Err(unfit(StateError(format!("{found} parameters, {expected} expected"))).into());
    }
    let bytes = codec_state.iter().flat_map(|x| x.to_le_bytes()).collect();
    // First, because its elements are the largest.
    let state = Tensor { name: CODEC_STATE.into(), dtype: Dtype::F64, shape: vec![codec_state.len()], bytes };
    let mut tensors = vec![state];
    for tensor in &description.tensors {
        let bytes = tensor.places().flat_map(|place| parameters[place].to_le_bytes()).collect();
        let (name, shape) = (tensor.name.clone(), tensor.shape.clone());
        tensors.push(Tensor { name, dtype: Dtype::F32, shape, bytes });
    }
    let mut metadata = description.metadata;
    metadata.push(("frames", frames.to_string()));
    let mut pairs: Vec<(&str, &str)> = metadata.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let checksum = checksum(&pairs, &tensors);
    pairs.push((CHECKSUM, &checksum));
    write_atomically(&path, |out| safetensors::write(out, &pairs, &tensors))?;
    remove(&folder.join(LEGACY_NAME))
}

fn remove(path: &Path) -> Result<(), TrainError> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(StoreError::io(path, "remove", e).into()),
        _ => Ok(()),
    }
}

/// Reads the model of one agent of a run: the bytes for
/// [`Learner::restore_model`](spectral_agent::learner::Learner::restore_model).
///
/// A model of another format, task, codec or network is refused, and the error lists the differences. So is a model that is
/// damaged or holds numbers that are not finite. The agent's name and seed may differ.
pub fn read(path: &Path, run: &ResolvedRun, agent: usize) -> Result<Vec<u8>, TrainError> {
    if path.file_name().is_some_and(|name| name == LEGACY_NAME) {
        return Ok(Container::open(path)?.section(LEGACY_SECTION)?);
    }
    let description = Description::of(run, agent)?;
    let mut file = TensorFile::open(path)?;
    let wrong = |detail: String| StoreError::Model { path: path.into(), detail };
    let mut differences = description.compare_metadata(file.metadata());
    let expected = description.expected_tensors();
    differences.extend(compare_tensors(&file, &expected));
    if !differences.is_empty() {
        // In a model of another network every tensor differs.
        let more = differences.len().saturating_sub(LISTED);
        differences.truncate(LISTED);
        differences.extend((more > 0).then(|| format!("{more} more differences")));
        return Err(wrong(differences.join("; ")).into());
    }
    let entries = file.entries().to_vec();
    let tensors = entries.iter().map(|entry| file.read(entry)).collect::<Result<Vec<_>, _>>()?;
    let find = |name: &str| tensors.iter().find(|tensor| tensor.name == name);
    let not_finite = |name: &str| wrong(format!("{name} holds a number that is not finite"));
    let mut parameters = vec![0.0; description.network.parameters()];
    for tensor in &description.tensors {
        let bytes = find(&tensor.name).map_or(&[][..], |found| &found.bytes);
        for (place, value) in tensor.places().zip(bytes.as_chunks().0) {
            parameters[place] = f32::from_le_bytes(*value);
        }
        if !tensor.places().all(|place| parameters[place].is_finite()) {
            return Err(not_finite(&tensor.name).into());
        }
    }
    let state = find(CODEC_STATE).map_or(&[][..], |found| &found.bytes);
    let state: Vec<f64> = state.as_chunks().0.iter().map(|value| f64::from_le_bytes(*value)).collect();
    if !state.iter().all(|value| value.is_finite()) {
        return Err(not_finite(CODEC_STATE).into());
    }
    // Programs that edit a model leave the checksum out.
    let pairs = file.metadata().iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let (own, others): (Vec<_>, Vec<_>) = pairs.partition(|(key, _)| *key == CHECKSUM);
    if let [(_, recorded)] = own[..] {
        let found = checksum(&others, &tensors);
        if found != recorded {
            let recorded = shorten(recorded);
            return Err(wrong(format!("its checksum is {found}, but its metadata say {recorded}")).into());
        }
    }
    let mut out = StateWriter::default();
    out.f32s(&parameters);
    out.f64s(&state);
    Ok(out.into_bytes())
}

/// The checksum of everything else in the file: of `key NUL value NUL` for every pair, sorted by key, then of
/// `name NUL bytes` for every tensor, sorted by name. It does not depend on the order in the file.
fn checksum(metadata: &[(&str, &str)], tensors: &[Tensor]) -> String {
    let mut metadata = metadata.to_vec();
    metadata.sort();
    let mut tensors: Vec<&Tensor> = tensors.iter().collect();
    tensors.sort_by(|a, b| a.name.cmp(&b.name));
    let mut crc = crc32fast::Hasher::new();
    for (key, value) in metadata {
        [key, "\0", value, "\0"].iter().for_each(|text| crc.update(text.as_bytes()));
    }
    for tensor in tensors {
        [tensor.name.as_bytes(), b"\0", &tensor.bytes].iter().for_each(|bytes| crc.update(bytes));
    }
    format!("{:08x}", crc.finalize())
}

/// What a model file of one agent says and holds.
struct Description {
    network: Architecture,
    tensors: Vec<spectral_nn::Tensor>,
    codec_state: usize,
    codec_settings: Values,
    metadata: Vec<(&'static str, String)>,
}

impl Description {
    fn of(run: &ResolvedRun, agent: usize) -> Result<Self, TrainError> {
        let (plan, codec) = (&run.plan.agents[agent], run.codecs[agent].as_ref());
        let network = architecture(&plan.settings, &run.task, codec)?;
        let tensors = network.tensors().map_err(|e| TrainError::Usage(e.to_string()))?;
        let task = &run.task;
        let metadata = vec![
            ("format", FORMAT.into()),
            ("task", run.plan.task.clone()),
            ("task_settings", run.plan.task_settings_toml()),
            ("observation", observation(task)),
            ("input_scaling", input_scaling(task).into()),
            ("actions", list(task.actions.iter().map(|action| json_quote(action)))),
            ("agent", plan.agent.clone()),
            ("seed", plan.seed.to_string()),
            ("codec", plan.codec.clone()),
            (CODEC_SETTINGS, plan.codec_settings.to_toml()),
            ("outputs_per_action", codec.outputs().to_string()),
            ("output_order", "[action][output]".into()),
            ("discount", plan.settings.discount.show()),
            ("network", kind(&network).into()),
            ("hidden", list(network.layers.iter().map(|layer| width(layer).to_string()))),
            ("strides", list(network.layers.iter().filter_map(stride).map(|stride| stride.to_string()))),
            ("dueling", network.head.dueling.to_string()),
        ];
        let codec_settings = plan.codec_settings.clone();
        Ok(Description { network, tensors, codec_state: codec.init().len(), codec_settings, metadata })
    }

    /// Name, type and shape of everything in the file.
    fn expected_tensors(&self) -> Vec<(&str, Dtype, Vec<usize>)> {
        let state = (CODEC_STATE, Dtype::F64, vec![self.codec_state]);
        let parameters = self.tensors.iter().map(|t| (t.name.as_str(), Dtype::F32, t.shape.clone()));
        std::iter::once(state).chain(parameters).collect()
    }

    fn compare_metadata(&self, found: &[(String, String)]) -> Vec<String> {
        let value = |key: &str| found.iter().find(|(other, _)| other == key).map(|(_, value)| value.as_str());
        let mut differences = Vec::new();
        for (key, expected) in self.metadata.iter().filter(|(key, _)| DECISIVE.contains(key)) {
            match value(key) {
                Some(found) if found == expected => {}
                Some(found) => {
                    differences.push(format!(
                        "its {key} is '{}', not '{}'",
                        shorten(found),
                        shorten(expected)
                    ));
                }
                None => differences.push(format!("its metadata lacks '{key}'")),
            }
        }
        match value(CODEC_SETTINGS).map(str::parse::<toml::Table>) {
            None => differences.push(format!("its metadata lacks '{CODEC_SETTINGS}'")),
            Some(Err(_)) => differences.push(format!("its {CODEC_SETTINGS} are not TOML")),
            Some(Ok(found)) => {
                let own: toml::Table = self.codec_settings.to_toml().parse().unwrap_or_default();
                for (key, value) in found {
                    if own.get(&key) != Some(&value) {
                        let show =
                            |value: Option<&toml::Value>| value.and_then(plain).unwrap_or("unknown".into());
                        let (found, expected) = (show(Some(&value)), show(own.get(&key)));
                        let (key, found) = (shorten(&key), shorten(&found));
                        differences.push(format!("its codec's {key} is {found}, not {expected}"));
                    }
                }
            }
        }
        differences
    }
}

fn compare_tensors(file: &TensorFile, expected: &[(&str, Dtype, Vec<usize>)]) -> Vec<String> {
    let mut differences = Vec::new();
    for (name, dtype, shape) in expected {
        match file.entries().iter().find(|entry| entry.name == *name) {
            None => differences.push(format!("it has no tensor {name}")),
            Some(entry) if (entry.dtype, &entry.shape) == (*dtype, shape) => {}
            Some(entry) => differences.push(format!(
                "its {name} is {} {}, not {} {shape:?}",
                entry.dtype.name(),
                shorten(&format!("{:?}", entry.shape)),
                dtype.name()
            )),
        }
    }
    let more = file.entries().iter().filter(|entry| expected.iter().all(|(name, ..)| *name != entry.name));
    differences.extend(more.map(|entry| format!("its tensor {} is not expected", shorten(&entry.name))));
    differences
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.into(),
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

fn observation(task: &TaskSpec) -> String {
    match task.observation {
        ObservationSpec::Planes { channels, height, width, stack } => format!(
            "{{\"channels\": {channels}, \"height\": {height}, \"width\": {width}, \"stack\": {stack}}}"
        ),
        ObservationSpec::Vector { len } => format!("{{\"length\": {len}}}"),
    }
}

fn input_scaling(task: &TaskSpec) -> &'static str {
    match task.observation {
        ObservationSpec::Planes { .. } => "bytes/255",
        ObservationSpec::Vector { .. } => "none",
    }
}

/// The network's name among the settings.
fn kind(network: &Architecture) -> &'static str {
    let (input, head) = (network.input.clone(), network.head.clone());
    if *network == Architecture::nature(input.clone(), head.clone()) {
        "nature"
    } else if *network == Architecture::small_cnn(input, head) {
        "small-cnn"
    } else {
        "mlp"
    }
}

fn width(layer: &Layer) -> usize {
    match *layer {
        Layer::Conv { filters, .. } => filters,
        Layer::Linear { units } => units,
    }
}

fn stride(layer: &Layer) -> Option<usize> {
    match *layer {
        Layer::Conv { stride, .. } => Some(stride),
        Layer::Linear { .. } => None,
    }
}

#[cfg(test)]
mod tests;
