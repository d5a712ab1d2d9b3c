//go:build testhooks

package credential

// scryptWork is small in programs that are tested, which a race detector makes
// slow enough.
const scryptWork = 8
