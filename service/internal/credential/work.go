//go:build !testhooks

package credential

// scryptWork makes each try at a passphrase take about a second and 256 MiB.
const scryptWork = 18
