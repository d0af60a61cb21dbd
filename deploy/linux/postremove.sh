#!/bin/sh
# After a removal, by dpkg (remove, purge) or rpm (0). The data stays, unless dpkg is told to purge; so does the user, who owns it.
set -e
if [ "$1" = purge ]; then
	rm -rf "$DPKG_ROOT/var/lib/kinesin"
fi
case $1 in
remove | 0)
	if [ -d "$DPKG_ROOT/run/systemd/system" ]; then
		systemctl daemon-reload
	fi
	;;
esac
