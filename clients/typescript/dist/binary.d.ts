/** Returns the path of the server's program: $KINESIN_BIN, else that of the package for this platform, such as kinesin-linux-x64; undefined: there is neither. */
export declare function binary(): string | undefined;
/** The npm package that carries the program for this platform. */
export declare const platformPackage: string;
