//! The model of one agent: a [`safetensors`](mod@crate::store::safetensors) file that Python reads without us.
//!
//! It holds each layer's weights and biases as tensors with PyTorch's names and shapes ([`spectral_nn::Tensor`]), the codec's
//! statistics as `codec_state`, and metadata that say what the numbers mean. Version 0.1 wrote `model.bin`, a container of our
//! own, which is still read.

mod description;

pub use description::Description;

use crate::claim::Fence;
use crate::error::TrainError;
use crate::registry::Registry;
use crate::resolve::ResolvedRun;
use crate::store::safetensors::{self, Dtype, Tensor, TensorFile};
use crate::store::{Container, StoreError, disk};
use description::shorten;
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use std::path::{Path, PathBuf};

/// The file's name in an agent's folder.
const NAME: &str = "model.safetensors";
/// The file of the model that played best in evaluations.
const BEST_NAME: &str = "model-best.safetensors";
/// The name of the file with the mean of the weights.
const AVERAGE_NAME: &str = "model-average.safetensors";
/// The file's name in version 0.1.
const LEGACY_NAME: &str = "model.bin";
/// The section of that file.
const LEGACY_SECTION: &str = "model";
/// The tensor of the codec's statistics.
const CODEC_STATE: &str = "codec_state";
/// The metadata's key of the frames that a model was trained for.
const FRAMES: &str = "frames";
/// The metadata's key of the frames over which weights were averaged; a file without it holds those of one moment.
const AVERAGE_FRAMES: &str = "average_frames";
/// The metadata's key of the checksum.
const CHECKSUM: &str = "crc32";
/// Error messages list at most this many differences.
const LISTED: usize = 8;

/// The model in an agent's folder: that of version 0.1 if there is no other, or if version 0.1 trained the run further.
pub(crate) fn path_in(folder: &Path) -> PathBuf {
    let [path, legacy] = [NAME, LEGACY_NAME].map(|name| folder.join(name));
    let written = |path: &Path| disk::metadata(path).and_then(|m| m.modified()).ok();
    if written(&legacy) > written(&path) { legacy } else { path }
}

/// The file of the best model in an agent's folder.
pub(crate) fn best_in(folder: &Path) -> PathBuf {
    folder.join(BEST_NAME)
}

/// The averaged model in an agent's folder, whether it is there or not.
pub(crate) fn average_in(folder: &Path) -> PathBuf {
    folder.join(AVERAGE_NAME)
}

/// The frames that the model in a file was trained for, if the file says so.
pub(crate) fn frames_in(path: &Path) -> Result<Option<u64>, TrainError> {
    if is_legacy(path) {
        return Ok(None);
    }
    let file = TensorFile::open(path)?;
    let frames = file.metadata().iter().find(|(key, _)| key == FRAMES);
    Ok(frames.and_then(|(_, value)| value.parse().ok()))
}

/// Removes the file of the best model, if there is one.
pub(crate) fn remove_best(folder: &Path) -> Result<(), StoreError> {
    remove(&best_in(folder))
}

/// Whether this is a model of version 0.1.
pub(crate) fn is_legacy(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == LEGACY_NAME)
}

/// A model: what a file says of it, and its numbers.
#[derive(Clone, Debug)]
pub struct Model {
    /// Whose model this is, and what its numbers mean.
    pub description: Description,
    /// Frames that it was trained for.
    pub frames: u64,
    /// If its weights are a [running mean](spectral_agent::average): the frames over which that reaches back.
    pub average: Option<u64>,
    /// The online network's parameters in the canonical [layout](spectral_nn::layout).
    pub parameters: Vec<f32>,
    /// The codec's statistics.
    pub codec_state: Vec<f64>,
}

impl Model {
    /// The model of one agent of a run, from the bytes of
    /// [`Population::save_model`](crate::population::Population::save_model).
    pub fn of(run: &ResolvedRun, agent: usize, frames: u64, model: &[u8]) -> Result<Self, StateError> {
        let mut from = StateReader::new(model);
        let (parameters, codec_state) = (from.f32s()?, from.f64s()?);
        from.finish()?;
        let description = Description::of(run, agent).map_err(|e| StateError(e.to_string()))?;
        let expected = [description.network().parameters(), description.codec().init().len()];
        let found = [parameters.len(), codec_state.len()];
        if found != expected {
            return Err(StateError(format!(
                "{} parameters and {} codec statistics, {} and {} expected",
                found[0], found[1], expected[0], expected[1]
            )));
        }
        Ok(Model { description, frames, average: None, parameters, codec_state })
    }

    /// Reads a model file by what it says of itself: no run is needed, only the codec.
    ///
    /// A file that says too little, contradicts itself, is damaged or holds numbers that are not finite is refused.
    pub fn load(path: &Path, registry: &Registry) -> Result<Self, TrainError> {
        let mut file = TensorFile::open(path).map_err(|e| alone(path, e))?;
        let unfit = |detail: String| StoreError::Model { path: path.into(), detail };
        let description = Description::read(file.metadata(), registry).map_err(|e| alone(path, unfit(e)))?;
        let frames = file.metadata().iter().find(|(key, _)| key == FRAMES).map(|(_, value)| value.parse());
        let Some(Ok(frames)) = frames else {
            return Err(alone(path, unfit(format!("its metadata do not say '{FRAMES}'"))));
        };
        let average = file.metadata().iter().find(|(key, _)| key == AVERAGE_FRAMES);
        let average = average.map(|(_, value)| value.parse()).transpose();
        let average = average
            .map_err(|_| alone(path, unfit(format!("its {AVERAGE_FRAMES} must be a whole number"))))?;
        let model = read_model(path, &mut file, description, frames).map_err(|e| alone(path, e))?;
        Ok(Model { average, ..model })
    }

    /// Whether every number is finite. A model of which this is not true cannot act.
    pub fn is_finite(&self) -> bool {
        self.parameters.iter().all(|x| x.is_finite()) && self.codec_state.iter().all(|x| x.is_finite())
    }

    /// Writes the file, atomically. Equal models give equal files.
    pub fn write(&self, path: &Path) -> Result<(), TrainError> {
        self.write_with(path, &[], &Fence::default())
    }

    /// [`write`](Model::write), with more metadata, if the run is still this process's.
    pub(crate) fn write_with(
        &self,
        path: &Path,
        more: &[(&'static str, String)],
        fence: &Fence,
    ) -> Result<(), TrainError> {
        let origin = Origin { description: &self.description, frames: self.frames, average: self.average };
        write_model(path, origin, &self.parameters, &self.codec_state, more, fence)
    }
}

/// A model file that is read without its run cannot be written again by resuming one.
fn alone(path: &Path, error: StoreError) -> TrainError {
    match error {
        StoreError::Model { detail, .. } => TrainError::Data(format!(
            "{} cannot be used as a model by itself: {detail}; give a `model.safetensors` as this version writes it",
            path.display()
        )),
        other => other.into(),
    }
}

/// All but a model's numbers.
pub(crate) struct Origin<'a> {
    pub description: &'a Description,
    pub frames: u64,
    pub average: Option<u64>,
}

/// Writes a model whose parts are in several places.
pub(crate) fn write_model(
    path: &Path,
    Origin { description, frames, average }: Origin<'_>,
    parameters: &[f32],
    codec_state: &[f64],
    more: &[(&'static str, String)],
    fence: &Fence,
) -> Result<(), TrainError> {
    let bytes = codec_state.iter().flat_map(|x| x.to_le_bytes()).collect();
    // First, because its elements are the largest.
    let state = Tensor { name: CODEC_STATE.into(), dtype: Dtype::F64, shape: vec![codec_state.len()], bytes };
    let mut tensors = vec![state];
    for tensor in description.tensors() {
        let mut bytes = Vec::with_capacity(4 * tensor.shape.iter().product::<usize>());
        tensor.places().for_each(|place| bytes.extend_from_slice(&parameters[place].to_le_bytes()));
        let (name, shape) = (tensor.name.clone(), tensor.shape.clone());
        tensors.push(Tensor { name, dtype: Dtype::F32, shape, bytes });
    }
    let mut metadata = description.metadata();
    metadata.push((FRAMES, frames.to_string()));
    metadata.extend(average.map(|frames| (AVERAGE_FRAMES, frames.to_string())));
    metadata.extend(more.iter().cloned());
    let mut pairs: Vec<(&str, &str)> = metadata.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let checksum = checksum(&pairs, &tensors);
    pairs.push((CHECKSUM, &checksum));
    fence.write_atomically(path, |out| safetensors::write(out, &pairs, &tensors))
}

/// Writes the model of one agent into its folder, from the bytes of
/// [`Population::save_model`](crate::population::Population::save_model), and replaces the one that was there.
///
/// A model with numbers that are not finite cannot act. It is not written, and an older one is removed. Nothing changes unless the
/// run is still this process's, by `fence`.
pub fn write(
    folder: &Path,
    run: &ResolvedRun,
    agent: usize,
    frames: u64,
    model: &[u8],
    fence: &Fence,
) -> Result<(), TrainError> {
    let path = folder.join(NAME);
    let model = Model::of(run, agent, frames, model).map_err(|e| StoreError::state(&path, &e))?;
    replace(&path, model, fence)?;
    fence.check()?;
    Ok(remove(&folder.join(LEGACY_NAME))?)
}

/// Writes the mean of an agent's weights, or removes the file where there is none or it could not act: see [`write`](fn@write).
pub fn write_average(
    folder: &Path,
    run: &ResolvedRun,
    agent: usize,
    frames: u64,
    model: Option<&[u8]>,
    fence: &Fence,
) -> Result<(), TrainError> {
    let path = average_in(folder);
    let Some(model) = model else {
        fence.check()?;
        return Ok(remove(&path)?);
    };
    let model = Model::of(run, agent, frames, model).map_err(|e| StoreError::state(&path, &e))?;
    let model = Model { average: Some(run.plan.agents[agent].settings.average), ..model };
    replace(&path, model, fence)
}

/// Writes a model, or removes the file if it could not act.
fn replace(path: &Path, model: Model, fence: &Fence) -> Result<(), TrainError> {
    if model.is_finite() {
        return model.write_with(path, &[], fence);
    }
    fence.check()?;
    Ok(remove(path)?)
}

fn remove(path: &Path) -> Result<(), StoreError> {
    match disk::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(StoreError::io(path, "remove", e)),
        _ => Ok(()),
    }
}

/// Reads the model of one agent of a run: the bytes for
/// [`Learner::restore_model`](spectral_agent::learner::Learner::restore_model).
///
/// A model of another format, task, codec or network is refused, and the error lists the differences. So is a model that is
/// damaged or holds numbers that are not finite. The agent's name and seed may differ.
pub fn read(path: &Path, run: &ResolvedRun, agent: usize) -> Result<Vec<u8>, TrainError> {
    if is_legacy(path) {
        return Ok(Container::open(path)?.section(LEGACY_SECTION)?);
    }
    let mut file = TensorFile::open(path)?;
    let model = read_model(path, &mut file, Description::of(run, agent)?, 0)?;
    let mut out = StateWriter::default();
    out.f32s(&model.parameters);
    out.f64s(&model.codec_state);
    Ok(out.into_bytes())
}

/// [`read`](fn@read) of a file that lies in a run's folder as the model of this agent: it must say that it is, in whatever it says of
/// its agent, its seed and the task's settings, and be of `frames` if that is given. Otherwise a file that was copied from elsewhere
/// would play as if the run had trained it.
///
/// Files that say less are read. So is any model by its own path, with [`Policy::load`](crate::policy::Policy::load).
pub fn read_own(
    path: &Path,
    run: &ResolvedRun,
    agent: usize,
    frames: Option<u64>,
) -> Result<Vec<u8>, TrainError> {
    let model = read(path, run, agent)?;
    if !is_legacy(path) {
        let file = TensorFile::open(path)?;
        let value = |key: &str| {
            file.metadata().iter().find(|(other, _)| other == key).map(|(_, value)| value.as_str())
        };
        let of_another = Description::of(run, agent)?.whose_else(value).or_else(|| {
            let found: u64 = value(FRAMES)?.parse().ok()?;
            let expected = frames.filter(|expected| *expected != found)?;
            Some(format!("this is a model of frame {found}, but the agent ended at frame {expected}"))
        });
        if let Some(why) = of_another {
            return Err(StoreError::Model { path: path.into(), detail: why }.into());
        }
    }
    Ok(model)
}

/// Reads what a file holds if all of it is as the description says.
fn read_model(
    path: &Path,
    file: &mut TensorFile,
    description: Description,
    frames: u64,
) -> Result<Model, StoreError> {
    let wrong = |detail: String| StoreError::Model { path: path.into(), detail };
    let mut differences = description.compare_metadata(file.metadata());
    differences.extend(compare_tensors(file, &expected_tensors(&description)));
    if !differences.is_empty() {
        // In a model of another network every tensor differs.
        let more = differences.len().saturating_sub(LISTED);
        differences.truncate(LISTED);
        differences.extend((more > 0).then(|| format!("{more} more differences")));
        return Err(wrong(differences.join("; ")));
    }
    let entries = file.entries().to_vec();
    let tensors = entries.iter().map(|entry| file.read(entry)).collect::<Result<Vec<_>, _>>()?;
    let find = |name: &str| tensors.iter().find(|tensor| tensor.name == name);
    let not_finite = |name: &str| wrong(format!("{name} holds a number that is not finite"));
    let mut parameters = vec![0.0; description.network().parameters()];
    for tensor in description.tensors() {
        let bytes = find(&tensor.name).map_or(&[][..], |found| &found.bytes);
        for (place, value) in tensor.places().zip(bytes.as_chunks().0) {
            parameters[place] = f32::from_le_bytes(*value);
        }
        if !tensor.places().all(|place| parameters[place].is_finite()) {
            return Err(not_finite(&tensor.name));
        }
    }
    let state = find(CODEC_STATE).map_or(&[][..], |found| &found.bytes);
    let codec_state: Vec<f64> = state.as_chunks().0.iter().map(|value| f64::from_le_bytes(*value)).collect();
    if !codec_state.iter().all(|value| value.is_finite()) {
        return Err(not_finite(CODEC_STATE));
    }
    // Programs that edit a model leave the checksum out.
    let pairs = file.metadata().iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let (own, others): (Vec<_>, Vec<_>) = pairs.partition(|(key, _)| *key == CHECKSUM);
    if let [(_, recorded)] = own[..] {
        let found = checksum(&others, &tensors);
        if found != recorded {
            let recorded = shorten(recorded);
            return Err(wrong(format!("its checksum is {found}, but its metadata say {recorded}")));
        }
    }
    Ok(Model { description, frames, average: None, parameters, codec_state })
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

/// Name, type and shape of everything in the file.
fn expected_tensors(description: &Description) -> Vec<(&str, Dtype, Vec<usize>)> {
    let state = (CODEC_STATE, Dtype::F64, vec![description.codec().init().len()]);
    let parameters = description.tensors().iter().map(|t| (t.name.as_str(), Dtype::F32, t.shape.clone()));
    std::iter::once(state).chain(parameters).collect()
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

#[cfg(test)]
mod tests;
