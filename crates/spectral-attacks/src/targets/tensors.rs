//! Models in safetensors files, as anybody may send one.

use crate::scratch::Scratch;
use spectral_train::model_file::Model;
use spectral_train::policy::Policy;
use spectral_train::registry::Registry;
use spectral_train::store::safetensors::TensorFile;

pub(super) const WORDS: &[&[u8]] = &[
    b"\"__metadata__\":{",
    b"\"dtype\":\"F32\"",
    b"\"shape\":[",
    b"\"data_offsets\":[0,",
    b"18446744073709551615",
    b"4294967296",
    b"\\u0000",
    b"\\ud800",
    b"[[[[",
    b"nan",
];

thread_local! {
    static PLACE: (Scratch, Registry) = (Scratch::new(), Registry::default());
}

pub(super) fn run(bytes: &[u8]) {
    let _ = outcome(bytes);
}

/// Why there is no model in these bytes, if there is none.
fn outcome(bytes: &[u8]) -> Result<(), String> {
    PLACE.with(|(folder, registry)| {
        let path = folder.file("model.safetensors", bytes);
        if let Ok(mut file) = TensorFile::open(&path) {
            for entry in file.entries().to_vec() {
                let _ = file.read(&entry);
            }
        }
        let model = Model::load(&path, registry).map_err(|e| e.to_string())?;
        assert!(model.is_finite(), "a model that cannot act was accepted");
        let mut policy = Policy::new(model).map_err(|e| e.to_string())?;
        let observations = vec![0.5; policy.observation_len()];
        let _ = policy.q_values(spectral_nn::Samples::Floats(&observations));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus;

    /// A model that carries its checksum hides everything behind the checksum's test from whoever changes it.
    #[test]
    fn changed_models_are_not_refused_for_their_checksum_alone() {
        let corpus = corpus::make().remove("tensors").expect("a corpus");
        let of = |name: &str| corpus.iter().find(|(known, _)| *known == name).expect("an input").1.clone();
        assert_eq!(outcome(&of("model")), Ok(()));
        let mut model = of("unsummed");
        assert_eq!(outcome(&model), Ok(()));
        let last = model.len() - 1;
        model[last] ^= 1;
        assert_eq!(outcome(&model), Ok(()), "a weight of another size");
        let mut summed = of("model");
        let last = summed.len() - 1;
        summed[last] ^= 1;
        assert!(outcome(&summed).expect_err("a wrong sum").contains("checksum"));
    }
}
