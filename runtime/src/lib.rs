//! fdr
