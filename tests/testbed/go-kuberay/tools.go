//go:build tools

// The operator that is built from this module, so that go.sum pins it.
package main

import (
	_ "github.com/ray-project/kuberay/ray-operator"
)
