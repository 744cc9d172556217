//! In what two descriptions of a task differ, in words.

use crate::{ObservationSpec, TaskSpec};

impl TaskSpec {
    /// What is different in `now`, as parts of a sentence; nothing if the two are equal.
    ///
    /// ```
    /// use spectral_env::TaskSpec;
    /// let before = TaskSpec::vector("mine", 4, &["left", "right"]);
    /// let now = TaskSpec::vector("mine", 6, &["left", "right"]);
    /// assert_eq!(before.difference(&now), "an observation was 4 numbers and is 6 numbers");
    /// assert_eq!(before.difference(&before), "");
    /// ```
    pub fn difference(&self, now: &TaskSpec) -> String {
        let mut parts = Vec::new();
        let mut part = |what: &str, before: String, now: String| {
            if before != now {
                parts.push(format!("{what} was {before} and is {now}"));
            }
        };
        part("its name", self.name.clone(), now.name.clone());
        part("an observation", seen(self.observation), seen(now.observation));
        part("the number of actions", self.actions.len().to_string(), now.actions.len().to_string());
        let mut pairs = self.actions.iter().zip(&now.actions).enumerate();
        if let Some((number, (before, now))) = pairs.find(|(_, (before, now))| before != now) {
            part(&format!("action {number}"), format!("'{before}'"), format!("'{now}'"));
        }
        let frames = |spec: &TaskSpec| spec.frames_per_step.to_string();
        part("the number of frames of a step", frames(self), frames(now));
        let score = |spec: &TaskSpec| spec.max_player_score.to_string();
        part("the highest player's score", score(self), score(now));
        match (self.masks_actions, now.masks_actions) {
            (false, true) => parts.push("all actions were legal and some are not now".into()),
            (true, false) => parts.push("some actions were not legal and all are now".into()),
            _ => {}
        }
        parts.join("; ")
    }
}

fn seen(observation: ObservationSpec) -> String {
    match observation {
        ObservationSpec::Planes { channels, height, width, stack } => {
            let planes = if channels == 1 { "1 plane".into() } else { format!("{channels} planes") };
            format!("{planes} of {height} × {width} in a stack of {stack}")
        }
        ObservationSpec::Vector { len } => format!("{len} numbers"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_that_differs_is_named() {
        let before = TaskSpec::vector("mine", 4, &["left", "right"]);
        let screen = ObservationSpec::Planes { channels: 1, height: 84, width: 84, stack: 4 };
        let mut now = TaskSpec::new("yours", screen, &["left", "up", "down"]);
        (now.frames_per_step, now.max_player_score, now.masks_actions) = (4, 21, true);
        assert_eq!(
            before.difference(&now),
            "its name was mine and is yours; an observation was 4 numbers and is 1 plane of 84 × 84 in a stack of 4; \
             the number of actions was 2 and is 3; action 1 was 'right' and is 'up'; the number of frames of a step was 1 and is 4; \
             the highest player's score was 0 and is 21; all actions were legal and some are not now"
        );
        assert!(now.difference(&before).ends_with("some actions were not legal and all are now"));
    }
}
