# pacman tells an upgrade from an installation by the name of this function.
echo "Reeve is upgraded. Services that run go on with the program from before; their users run: reeve service restart"
