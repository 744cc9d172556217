//! One message of the picture stream: what an agent sees, what it expects of each action, and what it does.

use crate::picture::Indexed;
use serde_json::{Value, json};
use spectral_agent::codecs::{Codec, Spectrum};
use spectral_env::ActionMask;
use std::sync::Arc;

/// Who chose an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chooser {
    /// The greedy agent.
    Agent,
    /// Exploration.
    Chance,
    /// A person at the keyboard.
    Human,
}

/// Everything of one moment but its picture.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The agent's number.
    pub agent: usize,
    /// Its frames.
    pub frame: u64,
    /// The frames that it had seen when the weights of the values were taken.
    pub weights_frame: Option<u64>,
    /// Episodes before this one.
    pub episode: u64,
    /// The episode's score so far.
    pub score: f64,
    /// What the action before brought.
    pub reward: f64,
    /// The episode has ended.
    pub over: bool,
    /// Steps were left out since the scene before.
    pub jump: bool,
    /// The action, once it is chosen.
    pub action: Option<usize>,
    /// Who chose it.
    pub chooser: Chooser,
    /// The legal actions, if not all are.
    pub legal: Option<ActionMask>,
    /// Why chance plays in place of a model, if it does.
    pub trouble: Option<String>,
    /// Action-values, if they were computed.
    pub values: Option<Values>,
}

/// What an agent expects of each action.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values {
    /// The decoded value of each action.
    pub decoded: Vec<f32>,
    /// Per action, what its bars show; empty lists if the codec has only a value.
    pub shown: Vec<Vec<f32>>,
}

impl Values {
    /// From the network's outputs for one state, `[action][output]`, and the decoded values.
    pub fn new(codec: &dyn Codec, outputs: &[f32], decoded: Vec<f32>) -> Self {
        let bars = codec.spectrum() != Spectrum::Value;
        let show = |outputs: &[f32]| {
            let mut shown = outputs.to_vec();
            codec.show(&mut shown);
            shown
        };
        let rows = outputs.chunks_exact(codec.outputs());
        Values { decoded, shown: rows.map(|row| if bars { show(row) } else { Vec::new() }).collect() }
    }
}

/// A scene and its picture as bytes; the protocol's page describes them.
pub(crate) fn message(sequence: u64, scene: &Scene, picture: &Indexed, controls: Value) -> Arc<[u8]> {
    let drawn = !picture.pixels.is_empty();
    let head = json!({
        "sequence": sequence, "agent": scene.agent,
        "width": if drawn { picture.width } else { 0 }, "height": if drawn { picture.height } else { 0 },
        "colours": picture.palette.len() / 3,
        "frame": scene.frame, "weights_frame": scene.weights_frame,
        "episode": scene.episode, "score": scene.score, "reward": scene.reward, "over": scene.over, "jump": scene.jump,
        "action": scene.action,
        "chosen_by": match scene.chooser {
            Chooser::Agent => "agent",
            Chooser::Chance => "chance",
            Chooser::Human => "human",
        },
        "legal": scene.legal.as_ref().map(|legal| legal.iter().collect::<Vec<_>>()),
        "values": scene.values.as_ref().map(|values| rounded(&values.decoded)),
        "outputs": scene.values.as_ref().map(|v| v.shown.iter().map(|row| rounded(row)).collect::<Vec<_>>()),
        "trouble": scene.trouble, "controls": controls,
    });
    let head = head.to_string();
    let len = |n: usize| u32::try_from(n).unwrap_or(0).to_le_bytes();
    let rest = 4 + head.len() + picture.palette.len() + picture.pixels.len();
    let (rest, json) = (len(rest), len(head.len()));
    [&rest, &json, head.as_bytes(), &picture.palette, &picture.pixels].concat().into()
}

/// Numbers as short as a bar needs them: four digits.
fn rounded(values: &[f32]) -> Vec<Value> {
    let short = |value: &f32| {
        let value = f64::from(*value);
        if value == 0.0 || !value.is_finite() {
            return json!(if value == 0.0 { Some(0.0) } else { None });
        }
        let unit = 10f64.powi(3 - value.abs().log10().floor() as i32);
        match (value * unit).round() / unit {
            rounded if rounded.is_finite() => json!(rounded),
            _ => json!(value),
        }
    };
    values.iter().map(short).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use spectral_agent::codecs::configure;

    #[test]
    fn numbers_are_short_and_never_wrong() {
        let values = rounded(&[0.0, 1.0, 0.123_456_79, -98_765.4, f32::NAN, f32::INFINITY, 3e-41, f32::MAX]);
        let text = values.iter().map(Value::to_string).collect::<Vec<_>>().join(" ");
        assert!(text.starts_with("0.0 1.0 0.1235 -98770.0 null null "), "{text}");
    }

    #[test]
    fn bars_are_what_the_codec_says() {
        let codec = |text| configure(text, Default::default()).unwrap().1;
        let frequencies =
            Values::new(codec("spectral max_frequency=2").as_ref(), &[1.0, 0.5, 0.0], vec![2.0]);
        assert_eq!(frequencies.shown, [[1.0, 0.5, 0.0]]);
        assert_eq!(Values::new(codec("clipped").as_ref(), &[1.0], vec![1.0]).shown, [Vec::<f32>::new()]);
        let shares = Values::new(codec("categorical atoms=3").as_ref(), &[0.0, 5.0, 0.0], vec![0.0]);
        assert!((shares.shown[0].iter().sum::<f32>() - 1.0).abs() < 1e-6 && shares.shown[0][1] > 0.9);
    }

    #[test]
    fn a_message_says_how_long_its_parts_are() {
        let scene = Scene {
            agent: 0,
            frame: 7,
            weights_frame: None,
            episode: 0,
            score: f64::NAN,
            reward: 1.0,
            over: false,
            jump: false,
            action: Some(1),
            chooser: Chooser::Agent,
            legal: None,
            trouble: None,
            values: None,
        };
        let picture = Indexed { width: 2, height: 1, palette: vec![1, 2, 3], pixels: vec![0, 0] };
        let bytes = message(3, &scene, &picture, Value::Null);
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        assert_eq!(number(0), bytes.len() - 4);
        let head: Value = serde_json::from_slice(&bytes[8..8 + number(4)]).unwrap();
        assert_eq!((&head["frame"], &head["score"], &head["colours"]), (&json!(7), &Value::Null, &json!(1)));
        assert_eq!(&bytes[8 + number(4)..], [1, 2, 3, 0, 0]);
    }
}
