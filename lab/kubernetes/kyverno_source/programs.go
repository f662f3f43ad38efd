//go:build programs

// What is built from this module; the import keeps `go mod tidy` from forgetting its dependencies.
package kyverno

import _ "github.com/kyverno/kyverno/cmd/cli/kubectl-kyverno"
