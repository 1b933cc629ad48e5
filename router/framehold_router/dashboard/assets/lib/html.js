/** What every part is written with: tagged templates that render with Preact. Text is always text, never markup. */
import htm from "htm";
import { Component, Fragment, h, render } from "preact";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

export const html = htm.bind(h);
export { Component, Fragment, render, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState };
