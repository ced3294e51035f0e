//go:build tools

// The controllers that are built from this module, so that go.sum pins them.
package main

import (
	_ "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager"
	_ "sigs.k8s.io/jobset"
)
