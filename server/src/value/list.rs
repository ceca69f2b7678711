//! A list: one packed run while small, a deque of packed chunks when large.
