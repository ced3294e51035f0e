//go:build tools

// The controller that is built from this module, so that go.sum pins it.
package main

import (
	_ "sigs.k8s.io/kueue/cmd/kueue"
)
