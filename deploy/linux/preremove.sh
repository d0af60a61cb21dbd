#!/bin/sh
# Before a removal, by dpkg (remove) or rpm (0), and before an upgrade, after which postinstall.sh starts the new version.
set -e
case $1 in
remove | 0)
	if [ -d "$DPKG_ROOT/run/systemd/system" ]; then
		systemctl disable --now kinesin.service
	fi
	;;
esac
