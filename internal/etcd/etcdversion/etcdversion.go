// Package etcdversion records known faults of versions of etcd. It is pure.
//
// Not promised: a version without a known fault may have faults.
package etcdversion

import "github.com/coreos/go-semver/semver"

// UpgradeRemedy is the remedy for versions for which RevokesRenewedLeases is true.
const UpgradeRemedy = "upgrade to 3.4.31, 3.5.13 or later"

// RevokesRenewedLeases reports whether an etcd of that version easily revokes leases that were renewed (etcd's issue
// 15247), so that two nodes may lead for a moment. Later versions still do so if etcd has several members and
// its leader stood still for most of a TTL; for them RevokesRenewedLeases returns false. It also returns false for a
// version that cannot be parsed.
func RevokesRenewedLeases(version string) bool {
	v, err := semver.NewVersion(version)
	if err != nil {
		return false
	}
	switch {
	case v.Major < 3, v.Major == 3 && v.Minor < 4:
		return true
	case v.Major == 3 && v.Minor == 4:
		return v.LessThan(semver.Version{Major: 3, Minor: 4, Patch: 31})
	case v.Major == 3 && v.Minor == 5:
		return v.LessThan(semver.Version{Major: 3, Minor: 5, Patch: 13})
	}
	return false
}
