//! Cross traffic.
