// Package suite is upstream's end-to-end suite with the network tests alone: those of storage, scheduling and the other
// groups would only make the program larger.
package suite

import (
	"flag"
	"os"
	"testing"

	"k8s.io/kubernetes/test/e2e"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	"k8s.io/kubernetes/test/e2e/framework/testfiles"
	manifests "k8s.io/kubernetes/test/e2e/testing-manifests"

	// The labels that tests carry, and the parts of the framework that register themselves.
	_ "k8s.io/kubernetes/test/e2e/feature"
	_ "k8s.io/kubernetes/test/e2e/framework/debug/init"
	_ "k8s.io/kubernetes/test/e2e/framework/metrics/init"
	_ "k8s.io/kubernetes/test/e2e/framework/node/init"
	_ "k8s.io/kubernetes/test/e2e/network"
)

func TestMain(m *testing.M) {
	all := flag.CommandLine
	config.CopyFlags(config.Flags, all)
	framework.RegisterCommonFlags(all)
	framework.RegisterClusterFlags(all)
	flag.Parse()
	framework.AfterReadingAllFlags(&framework.TestContext)
	testfiles.AddFileSource(manifests.GetE2ETestingManifestsFS())
	os.Exit(m.Run())
}

func TestNetwork(t *testing.T) { e2e.RunE2ETests(t) }
