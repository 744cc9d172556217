//! Replay, value codecs and the one learner.
